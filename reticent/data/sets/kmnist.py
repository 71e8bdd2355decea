"""KMNIST: cursive Japanese characters; "KMNIST Dataset" (created by CODH), adapted from "Kuzushiji Dataset"."""

from pathlib import Path

from reticent.data.sets._shared import Found, chosen, mnist_like

home = "https://codh.rois.ac.jp/kmnist/"
files = {
    f"https://codh.rois.ac.jp/kmnist/dataset/kmnist/{name}.gz": f"{name}.gz"
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
}
by_hand = ""
licence = 'CC BY-SA 4.0, "KMNIST Dataset" (created by CODH), adapted from "Kuzushiji Dataset"'
rows = 70_000


def read(where: Path, label: str | None) -> Found:
    chosen(label, ["label"])
    return mnist_like(where)
