"""Caltech101-7: seven classes of Caltech101 in six views, as MMVFL uses it (Li and others, AAAI 2015)."""

from pathlib import Path

import numpy as np
import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, matlab
from reticent.data.tables import Table
from reticent.errors import DataError

home = "https://github.com/yeqinglee/mvdata"
files: dict[str, str] = {}
by_hand = f"take Caltech101-7.mat from {home}"
licence = "not stated; the pictures belong to their owners"
rows = 1_474
aliases = ("caltech101-7",)

names = ("gabor", "wm", "centrist", "hog", "gist", "lbp")  # 48, 40, 254, 1984, 512 and 928 columns


def read(where: Path, label: str | None) -> Found:
    """Caltech101-7.mat: X is a cell of six matrices [n, columns], Y the class of each row."""
    name = chosen(label, ["label"])
    path = file(where, "Caltech101-7.mat")
    contents = matlab(path)
    matrices = [np.asarray(view, np.float64) for view in np.asarray(contents["X"], dtype=object).reshape(-1)]
    y = np.asarray(contents["Y"]).reshape(-1).astype(np.int64)
    if len(matrices) != len(names) or any(len(view) != len(y) for view in matrices):
        raise DataError(f"{path}: views of {[view.shape for view in matrices]} for {len(y)} labels; six views of as many rows were expected")
    views = {view: [f"{view}_{i}" for i in range(matrix.shape[1])] for view, matrix in zip(names, matrices, strict=True)}
    columns = pl.concat([pl.from_numpy(matrix, schema=views[view]) for view, matrix in zip(names, matrices, strict=True)], how="horizontal")
    # undocumented, and of all scales: round bounds of our own for normalised features
    declared = {**bounds(columns.columns, -10, 10), name: Declared(values=tuple(range(1, 8)))}
    return Found(Table(columns), labels(pl.Series(name, y), "classification", declared[name]), declared, None, views, "bounds are ours; sorted by class")
