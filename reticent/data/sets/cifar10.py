"""CIFAR-10: small colour pictures (Krizhevsky, 2009)."""

from pathlib import Path

import numpy as np
import torch

from reticent.data.sets._shared import Found, chosen, file, images, pictures
from reticent.errors import DataError

home = "https://www.cs.toronto.edu/~kriz/cifar.html"
files = {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz": "cifar-10-binary.tar.gz"}
by_hand = ""
licence = "not stated by its author"
rows = 60_000

classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32


def read(where: Path, label: str | None) -> Found:
    chosen(label, ["label"])
    if (where / "train.parquet").is_file() and (where / "test.parquet").is_file():
        return pictures([images(where / f"{part}.parquet", (32, 32, 3)) for part in ("train", "test")], 10, classes)
    batches = [binary(file(where, f"cifar-10-batches-bin/{name}.bin")) for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")]
    return pictures(batches, 10, classes)


def binary(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """The official layout: a byte of label, then the red, green and blue planes."""
    data = np.fromfile(path, np.uint8)
    if data.size % (1 + PIXELS):
        raise DataError(f"{path}: {data.size:,} bytes are no whole number of pictures: fetch it anew")
    rows = data.reshape(-1, 1 + PIXELS)
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(rows[:, 0].astype(np.int64))
