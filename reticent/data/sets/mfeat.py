"""Multiple features ("Handwritten" of MMVFL): 2,000 digits in six views (Duin, UCI, 1998). Sorted by class: split it anew."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, frames, plain, values
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/72/multiple+features"
files = {"https://archive.ics.uci.edu/static/public/72/multiple+features.zip": "mfeat.zip"}
by_hand = ""
licence = "CC BY 4.0, Robert Duin, UCI Machine Learning Repository, 1998"
rows = 2_000

widths = {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}
views = {view: [f"{view}_{i}" for i in range(width)] for view, width in widths.items()}
# the documentation gives the pixels' 0 to 6; the rest are round bounds of our own
declared = {
    **bounds(views["fou"], 0, 1),
    **bounds(views["fac"], 0, 1500),
    **bounds(views["kar"], -20, 20),
    **bounds(views["pix"], 0, 6),
    **bounds(views["zer"], 0, 1000),
    **bounds(views["mor"][:3], 0, 10),
    **bounds(views["mor"][3:4], 0, 300),
    **bounds(views["mor"][4:5], 0, 5),
    **bounds(views["mor"][5:], 0, 20_000),
    **values(["label"], *range(10)),
}


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["label"])
    whole = frames(where, ["full"], official)["full"]
    columns = whole.select([column for view in views.values() for column in view])
    return Found(Table(columns), labels(whole[name], "classification", declared[name]), declared, None, views, "bounds are ours, but the pixels'")


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    parts = []
    for view, names in views.items():
        part = plain(file(where, f"mfeat-{view}"), " ")
        parts.append(part.rename(dict(zip(part.columns, names, strict=True))))
    n = parts[0].height
    label = pl.Series("label", np.arange(n) * 10 // max(n, 1), dtype=pl.UInt8)  # the files have no label: as many rows of each digit, in order
    return {"full": pl.concat(parts, how="horizontal").with_columns(label)}
