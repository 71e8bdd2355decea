"""cod-rna: which RNA sequences do not code for a protein (Uzilov and others, 2006), from LIBSVM's page.

4,691 rows of the test part occur, with their label, in the training part; they are left out of the test, since whoever
remembers them scores.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, frames, libsvm, pooled, values
from reticent.data.tables import Table

home = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#cod-rna"
files = {f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/{name}": name for name in ("cod-rna", "cod-rna.t", "cod-rna.r")}
by_hand = ""
licence = "not stated"
rows = 488_565

columns = [f"f{i}" for i in range(1, 9)]
# undocumented: f1 a free energy, f2 a length, the rest shares; round bounds of our own
declared = {"f1": Declared(-2000, 0), "f2": Declared(0, 200), **bounds(columns[2:], 0, 1), **values(["label"], -1, 1)}


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["label"])
    train, test = frames(where, ["train", "test"], official).values()
    new = test.join(train.unique(), on=train.columns, how="anti", maintain_order="left")
    whole, mask = pooled([train, new])
    note = f"{test.height - new.height:,} test rows that occur in the training part were removed; bounds are ours"
    return Found(Table(whole.select(columns)), labels(whole[name], "classification", declared[name]), declared, mask, {}, note, train.height + test.height)


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    """The "rest" file, where it is there, belongs to the test part."""
    parts = {}
    for part, names in (("train", ["cod-rna"]), ("test", ["cod-rna.t", "cod-rna.r"])):
        there = [libsvm(file(where, name), 8) for name in names if name != "cod-rna.r" or (where / name).is_file()]
        parts[part] = pl.concat([pl.from_numpy(x, schema=columns).with_columns(pl.Series("label", y).cast(pl.Int8)) for x, y in there])
    return parts
