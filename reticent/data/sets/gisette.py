"""Gisette: the digits 4 and 9 apart, in 5,000 columns, half of them probes (Guyon, NIPS 2003 challenge)."""

from pathlib import Path

import numpy as np
import polars as pl

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, plain, pooled, values
from reticent.data.tables import Table
from reticent.errors import DataError

home = "https://archive.ics.uci.edu/dataset/170/gisette"
files = {"https://archive.ics.uci.edu/static/public/170/gisette.zip": "gisette.zip"}
by_hand = ""
licence = "CC BY 4.0, Isabelle Guyon and others, UCI Machine Learning Repository, 2004"
rows = 7_000


def read(where: Path, label: str | None) -> Found:
    """GISETTE/gisette_{train,valid}.{data,labels}; the challenge's own test part has no labels."""
    name = chosen(label, ["label"])
    parts = []
    for part in ("train", "valid"):
        x = plain(file(where, f"GISETTE/gisette_{part}.data"), " ")
        y = plain(file(where, f"GISETTE/gisette_{part}.labels", f"gisette_{part}.labels"), " ").to_series()
        if len(y) != x.height:
            raise DataError(f"{where}: gisette_{part} has {x.height} rows and {len(y)} labels: fetch it anew")
        x = x.rename({old: f"f{i}" for i, old in enumerate(x.columns, 1)}).cast(pl.Int16)
        parts.append(x.with_columns(pl.Series(name, np.asarray(y), dtype=pl.Int8)))
    whole, test = pooled(parts)
    columns = whole.drop(name)
    declared = {**bounds(columns.columns, 0, 999), **values([name], -1, 1)}
    return Found(Table(columns), labels(whole[name], "classification", declared[name]), declared, test, {}, "the validation part is the test part")
