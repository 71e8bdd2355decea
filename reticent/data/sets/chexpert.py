"""CheXpert: chest radiographs (Irvin and others, 2019), front and side of one study, five findings, as SS-VFNAS uses it."""

from pathlib import Path

import numpy as np
import polars as pl
import torch

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, chosen, file, picture, values
from reticent.data.tables import Table
from reticent.errors import DataError

home = "https://stanfordmlgroup.github.io/competitions/chexpert/"
files: dict[str, str] = {}
by_hand = f"register at {home} and take CheXpert-v1.0-small"
licence = "Stanford University Dataset Research Use Agreement: research only, not to be redistributed"
rows = 28_630  # studies with both pictures: SS-VFNAS counts 11,252 + 11,252 + 6,126

findings = ["Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion"]
SIZE = 64


def read(where: Path, label: str | None) -> Found:
    """CheXpert-v1.0-small/{train,valid}.csv and the pictures they name: studies with both a frontal and a lateral one."""
    name = None if label is None else chosen(label, findings)
    parts = []
    for part in ("train", "valid"):
        path = file(where, f"CheXpert-v1.0-small/{part}.csv")
        listed = pl.read_csv(path, infer_schema_length=None).with_columns(study=pl.col("Path").str.replace(r"/[^/]*$", ""))
        first = listed.unique(["study", "Frontal/Lateral"], keep="first", maintain_order=True)
        sides = [first.filter(pl.col("Frontal/Lateral") == side) for side in ("Frontal", "Lateral")]
        both = sides[0].join(sides[1].select("study", pl.col("Path").alias("side")), on="study", how="inner", maintain_order="left")
        # uncertain (-1) and not mentioned (empty) count as absent
        parts.append(
            both.select("Path", "side", *[(pl.col(finding).cast(pl.Float64) == 1).fill_null(False).cast(pl.UInt8).alias(finding) for finding in findings])
        )
    whole = pl.concat(parts)
    if not whole.height:
        raise DataError(f"{where}: no study has both a frontal and a lateral picture")
    top = file(where, "CheXpert-v1.0-small/train.csv").parent
    x = [np.stack([picture(top / Path(path).relative_to("CheXpert-v1.0-small"), SIZE) for path in pair]) for pair in whole.select("Path", "side").iter_rows()]
    test = torch.zeros(whole.height, dtype=torch.bool)
    test[whole.height - parts[-1].height :] = True
    found = labels(whole.select(findings) if name is None else whole[name], "classification")
    declared = values(findings if name is None else [name], 0, 1)
    views = {"frontal": ["channel 0"], "lateral": ["channel 1"]}
    note = "studies with both pictures, 64 × 64; uncertain findings count as absent; the test part is the published validation part, not SS-VFNAS's own split"
    return Found(Table(pictures=torch.from_numpy(np.stack(x))), found, declared, test, views, note)
