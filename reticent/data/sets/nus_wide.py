"""NUS-WIDE: web pictures in five kinds of low-level features (Chua and others, 2009). FedOnce's task: is the sky in it?"""

from pathlib import Path

import polars as pl

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, file, plain, pooled, values
from reticent.data.tables import Table
from reticent.errors import DataError

home = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
files: dict[str, str] = {}
by_hand = f"take the low-level features and the ground truth from {home}"
licence = "for research, says its home"
rows = 269_648

features = ("CH", "CORR", "EDH", "WT", "CM55")  # 64, 144, 73, 128 and 225 columns; FedOnce writes 66 and 75 for CH and EDH, and does not say why


def read(where: Path, label: str | None) -> Found:
    """Low_Level_Features/{Train,Test}_Normalized_*.dat and TrainTestLabels/Labels_*_{Train,Test}.txt; any of its 81 labels is offered."""
    name = label or "sky"
    parts = []
    views: dict[str, list[str]] = {}
    for part in ("Train", "Test"):
        y = plain(file(where, f"Groundtruth/TrainTestLabels/Labels_{name}_{part}.txt"), " ").to_series().cast(pl.UInt8).alias(name)
        columns = []
        for feature in features:
            x = plain(file(where, f"Low_Level_Features/{part}_Normalized_{feature}.dat"), " ")
            if x.height != len(y):
                raise DataError(f"{where}: {part}_Normalized_{feature}.dat has {x.height} rows for {len(y)} labels: fetch it anew")
            views[feature] = [f"{feature}_{i}" for i in range(x.width)]
            columns.append(x.rename(dict(zip(x.columns, views[feature], strict=True))))
        parts.append(pl.concat(columns, how="horizontal").with_columns(y))
    whole, test = pooled(parts)
    x = whole.drop(name)
    declared = {**bounds(x.columns, -1, 1), **values([name], 0, 1)}
    return Found(Table(x), labels(whole[name], "classification", declared[name]), declared, test, views, "features are normalised; bounds are ours")
