"""Default of credit card clients, Taiwan 2005 (I-Cheng Yeh, UCI, 2009). Ships with the package."""

from pathlib import Path

import polars as pl

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, values
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients"
files: dict[str, str] = {}
by_hand = "it ships with the package: reticent/data/sets/default_credit.parquet"
licence = "CC BY 4.0, I-Cheng Yeh, UCI Machine Learning Repository, 2009"
rows = 30_000

months = range(1, 7)
views = {
    "person": ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"],
    "status": ["PAY_0", *(f"PAY_{i}" for i in range(2, 7))],
    "bills": [f"BILL_AMT{i}" for i in months],
    "payments": [f"PAY_AMT{i}" for i in months],
}
# the documentation gives SEX, EDUCATION 1-4, MARRIAGE 1-3 and PAY -1 to 9; the rest are round bounds of our own
declared = {
    **bounds(["LIMIT_BAL"], 0, 1_000_000),
    **values(["SEX"], 1, 2),
    **values(["EDUCATION"], 0, 1, 2, 3, 4, 5, 6),
    **values(["MARRIAGE"], 0, 1, 2, 3),
    **bounds(["AGE"], 18, 100),
    **bounds(views["status"], -2, 9),
    **bounds(views["bills"], -200_000, 1_000_000),
    **bounds(views["payments"], 0, 1_000_000),
    **values(["default"], 0, 1),
}


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["default"])
    whole = pl.read_parquet(file(where, "default_credit.parquet", "full.parquet"))
    columns = whole.select([column for view in views.values() for column in view])
    note = (
        "SEX, EDUCATION 1-4, MARRIAGE 1-3 and PAY -1 to 9 are declared as documented; "
        "EDUCATION 0, 5, 6, MARRIAGE 0, PAY -2 and the bounds of age and amounts are ours"
    )
    return Found(Table(columns), labels(whole[name], "classification", declared[name]), declared, None, views, note)
