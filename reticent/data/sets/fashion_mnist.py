"""Fashion-MNIST: pieces of clothing (Zalando, 2017)."""

from pathlib import Path

from reticent.data.sets._shared import Found, chosen, mnist_like

home = "https://github.com/zalandoresearch/fashion-mnist"
files = {
    f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz": f"{name}.gz"
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
}
by_hand = ""
licence = "MIT, (c) 2017 Zalando SE"
rows = 70_000


def read(where: Path, label: str | None) -> Found:
    chosen(label, ["label"])
    return mnist_like(where)
