"""Adult: who earns more than 50,000 dollars, US census of 1994 (Becker and Kohavi, UCI, 1996)."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, chosen, file, frames, pooled
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/2/adult"
files = {"https://archive.ics.uci.edu/static/public/2/adult.zip": "adult.zip"}
by_hand = ""
licence = "CC BY 4.0, Barry Becker and Ronny Kohavi, UCI Machine Learning Repository, 1996"
rows = 48_842


def words(text: str) -> Declared:
    return Declared(values=tuple(text.split()))


# categories as in adult.names; the bounds of numbers are round ones of our own
declared = {
    "age": Declared(16, 100),
    "workclass": words("Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"),
    "fnlwgt": Declared(0, 1_500_000),
    "education": words(
        "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th Doctorate 5th-6th Preschool"
    ),
    "education_num": Declared(1, 16),
    "marital_status": words("Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"),
    "occupation": words(
        "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners Machine-op-inspct Adm-clerical "
        "Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
    ),
    "relationship": words("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    "race": words("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black"),
    "sex": words("Female Male"),
    "capital_gain": Declared(0, 100_000),
    "capital_loss": Declared(0, 5_000),
    "hours_per_week": Declared(0, 100),
    "native_country": words(
        "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras "
        "Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary "
        "Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands"
    ),
    "income": words("<=50K >50K"),
}
columns = [name for name in declared if name != "income"]


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["income"])
    whole, test = pooled(list(frames(where, ["train", "test"], official).values()))
    unknown = pl.col(pl.String).replace("?", None)
    return Found(
        Table(whole.select(columns).with_columns(unknown)), labels(whole[name], "classification", declared[name]), declared, test, {}, "'?' is missing"
    )


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    parts = {}
    for part, name in (("train", "adult.data"), ("test", "adult.test")):
        lines = [line.strip().rstrip(".") for line in file(where, name).read_text().splitlines()]
        cells = [[cell.strip() for cell in line.split(",")] for line in lines if line.count(",") == 14]  # passes over the test file's first line
        text = pl.DataFrame(cells, schema=list(declared), orient="row")
        parts[part] = text.with_columns(pl.col([name for name in columns if declared[name].values is None]).cast(pl.Int64))
    return parts
