"""SVHN: street view house numbers, cropped digits (Netzer and others, 2011)."""

from pathlib import Path

import numpy as np
import torch

from reticent.data.sets._shared import Found, chosen, file, matlab, pictures, planes

home = "http://ufldl.stanford.edu/housenumbers/"
files = {f"http://ufldl.stanford.edu/housenumbers/{name}": name for name in ("train_32x32.mat", "test_32x32.mat")}
by_hand = ""
licence = "for non-commercial use only, says its home"
rows = 99_289


def read(where: Path, label: str | None) -> Found:
    """{train,test}_32x32.mat: X is height × width × channels × n, y is 1 to 10, where 10 is the digit 0."""
    chosen(label, ["label"])
    parts = []
    for part in ("train", "test"):
        contents = matlab(file(where, f"{part}_32x32.mat"))
        y = torch.from_numpy(np.asarray(contents["y"]).reshape(-1).astype(np.int64) % 10)
        parts.append((planes(np.asarray(contents["X"], np.uint8).transpose(3, 0, 1, 2)), y))
    return pictures(parts, 10)
