"""MNIST: handwritten digits (LeCun, Cortes, Burges)."""

from pathlib import Path

from reticent.data.sets._shared import Found, chosen, mnist_like

home = "https://yann.lecun.com/exdb/mnist/"
files = {
    f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz": f"{name}.gz"
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
}
by_hand = ""
licence = "not stated at its home; often given as CC BY-SA 3.0"
rows = 70_000


def read(where: Path, label: str | None) -> Found:
    chosen(label, ["label"])
    return mnist_like(where)
