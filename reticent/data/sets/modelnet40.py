"""ModelNet40 (Wu and others, 2015), seen from twelve sides, as SS-VFNAS uses it; the renderings are those of MVCNN (Su and others, 2015)."""

import re
from pathlib import Path

import numpy as np
import torch

from reticent.data.sets._shared import Found, chosen, picture, pictures
from reticent.errors import DataError

home = "https://modelnet.cs.princeton.edu/"
files: dict[str, str] = {}
by_hand = f"take the shapes from {home}, or MVCNN's renderings, http://supermoe.cs.umass.edu/shape_recog/shaded_images.tar.gz"
licence = "for academic use, says its home; the shapes belong to their makers"
rows = 12_311
aliases = ("modelnet40_images_new_12x",)

SIDES = 12
SIZE = 64


def read(where: Path, label: str | None) -> Found:
    """CLASS/{train,test}/SHAPE….NNN.png (as in chair_0001.obj.shaded_v001.png), twelve grey pictures a shape: one channel and one view each, 64 × 64."""
    chosen(label, ["label"])
    root = next((path for path in (where, *where.iterdir()) if path.is_dir() and any(path.glob("*/train/*.png"))), None)
    if root is None:
        raise DataError(f"{where}: no CLASS/train/*.png is there: {by_hand}")
    classes = sorted(path.name for path in root.iterdir() if path.is_dir())
    parts = []
    for part in ("train", "test"):
        x, y = [], []
        for kind, name in enumerate(classes):
            shapes: dict[str, list[Path]] = {}
            for path in sorted((root / name / part).glob("*.png")):
                shapes.setdefault(re.sub(r"\D*\d+$", "", path.stem), []).append(path)
            for shape, sides in shapes.items():
                if len(sides) != SIDES:
                    raise DataError(f"{root / name / part}: {shape} has {len(sides)} pictures where {SIDES} were expected")
                x.append(np.stack([picture(path, SIZE) for path in sides]))
                y.append(kind)
        pixels = np.stack(x) if x else np.zeros((0, SIDES, SIZE, SIZE), np.uint8)
        parts.append((torch.from_numpy(pixels), torch.tensor(y, dtype=torch.int64)))
    found = pictures(parts, len(classes), classes)
    views = {f"side {i + 1}": [f"channel {i}"] for i in range(SIDES)}
    return Found(found.table, found.labels, found.declared, found.test, views, f"{len(classes)} classes, {SIZE} × {SIZE} grey pictures, a channel a side")
