"""What every loader uses: the shape of a set, and readers of the formats that official homes offer."""

import gzip
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from reticent.data.encoding import Declared, listed
from reticent.data.labels import Labels
from reticent.data.tables import Table, digest_of
from reticent.errors import DataError
from reticent.learn.task import Task

if TYPE_CHECKING:
    from reticent.data.simulated import Federation

Bytes = npt.NDArray[np.uint8]


@dataclass(eq=False)
class Set:
    """A real data set, its rows in the order of its files: train part, then test part."""

    name: str
    table: Table
    labels: Labels
    test: Tensor | None  # bool [n]: the set's own test part
    declared: Mapping[str, Declared]  # bounds and categories by the documentation, the label's by its name
    complete: bool  # False: a subset of what was published
    sha256: str  # of the content, whatever file it came from
    licence: str
    note: str  # what a reader of a figure should know
    views: Mapping[str, list[str]] = field(default_factory=dict)
    asked: tuple[str | None, tuple[str, ...]] | None = None  # by which label, from which folders; None: made in memory

    def split(
        self,
        *,
        host: int | Sequence[str],
        guests: Mapping[str, int | Sequence[str]],
        test: float | None = None,
        seed: int = 0,
        rows: int | None = None,
        split_by: str | None = None,
    ) -> "Federation":
        """Columns dealt to a host (0: it has the labels alone) and to guests by name: so many of those that nobody names, in their order, or by name.

        `test`: not given, the set's own test part, or a fifth where it has none. `rows`: a sample of the training rows. `split_by`: the last rows by it test.
        """
        from reticent.data.simulated import by_columns

        return by_columns(self, host, guests, test, seed, rows, split_by)

    def deal(self, split: str, *, seed: int = 0, **how: Any) -> "Federation":  # Any: the keys of [data]
        """As [data] in a study says it: `deal("quadrants")`, `deal("equal", parties=10, host=3, test=0.1)`."""
        from reticent.data.simulated import by_rule

        return by_rule(self, split, seed, how)


@dataclass(frozen=True, eq=False)
class Found:
    """What a loader's `read` gives; `finish` makes a Set of it."""

    table: Table
    labels: Labels
    declared: Mapping[str, Declared]
    test: Tensor | None = None
    views: Mapping[str, list[str]] = field(default_factory=dict)
    note: str = ""
    counted: int | None = None  # rows that were read, where some of them were left out on purpose


class Loader(Protocol):
    """A module in this folder. It may also have `aliases`, other names of its folder."""

    home: str  # where the set comes from
    files: Mapping[str, str]  # address → file name; empty: a person has to fetch it
    by_hand: str  # what that person does
    licence: str
    rows: int  # of the whole published set

    def read(self, where: Path, label: str | None) -> Found: ...


def finish(name: str, loader: Loader, where: Path, label: str | None) -> Set:
    found = loader.read(where, label)
    n = len(found.table)
    complete = (found.counted or n) >= loader.rows
    note = found.note if complete else f"subset: {found.counted or n:,} of {loader.rows:,} rows. {found.note}".strip()
    mask = b"" if found.test is None else found.test.numpy().tobytes()
    sha256 = digest_of(found.table, found.labels, mask)
    return Set(name, found.table, found.labels, found.test, found.declared, complete, sha256, loader.licence, note, found.views)


def chosen(label: str | None, offered: Sequence[str]) -> str:
    """The label asked for, or the first one."""
    if label is not None and label not in offered:
        raise DataError(f'label = "{label}": this set offers {listed(offered)}')
    return label or offered[0]


def frames(where: Path, names: Sequence[str], official: Callable[[Path], Mapping[str, pl.DataFrame]]) -> dict[str, pl.DataFrame]:
    """The parts as Parquet (`train.parquet`), else from the official files."""
    paths = {name: where / f"{name}.parquet" for name in names}
    if all(path.is_file() for path in paths.values()):
        return {name: pl.read_parquet(path) for name, path in paths.items()}
    return dict(official(where))


def pooled(parts: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, Tensor]:
    """All parts one below the other, and a mask of the last one, the test part."""
    whole = pl.concat(parts, how="vertical_relaxed")
    test = torch.zeros(whole.height, dtype=torch.bool)
    test[whole.height - parts[-1].height :] = True
    return whole, test


def file(where: Path, *names: str) -> Path:
    """The first of these official files that is there, in the folder or one of its subfolders."""
    for name in names:
        if (where / name).is_file():
            return where / name
        deeper = sorted(where.rglob(Path(name).name))
        if deeper:
            return deeper[0]
    raise DataError(
        f"{where}: neither Parquet nor the official file {' or '.join(names)} is there: fetch the set anew, or name another folder in RETICENT_DATA"
    )


def bounds(names: Sequence[str], low: float, high: float) -> dict[str, Declared]:
    return {name: Declared(low, high) for name in names}


def values(names: Sequence[str], *values: object) -> dict[str, Declared]:
    return {name: Declared(values=values) for name in names}


def plain(path: Path, separator: str = ",") -> pl.DataFrame:
    """A text table without a header; fields apart by any white space, if `separator` is a space."""
    if separator == " ":
        return pl.from_numpy(np.loadtxt(path, ndmin=2))  # numpy opens .gz by itself
    return pl.read_csv(path, has_header=False, separator=separator, infer_schema_length=None)


def libsvm(path: Path, width: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """`label index:value …` lines, indices from 1."""
    y: list[float] = []
    rows: list[npt.NDArray[np.float64]] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        first, *cells = line.split() or [""]
        if not first:
            continue
        row = np.zeros(width)
        try:
            y.append(float(first))
            for cell in cells:
                index, value = cell.split(":")
                row[int(index) - 1] = float(value)
        except (ValueError, IndexError) as error:
            raise DataError(f"{path}: line {number} is not `label index:value …` with indices 1 to {width} ({error})") from error
        rows.append(row)
    return np.stack(rows) if rows else np.zeros((0, width)), np.array(y)


def images(path: Path, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Pictures kept as Parquet (image: height × width × channels bytes; label), as [n, channels, height, width] uint8."""
    table = pq.read_table(path)
    column = pa.concat_arrays(table.column("image").chunks)
    height, width, channels = shape
    size = height * width * channels
    if not pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary(size))
    if column.type.byte_width != size:
        raise DataError(f"{path}: an image has {column.type.byte_width} bytes where {height} × {width} × {channels} were expected")
    pixels = np.frombuffer(column.buffers()[1], np.uint8, count=len(column) * size, offset=column.offset * size)
    return planes(pixels.reshape(len(column), height, width, channels)), torch.from_numpy(table.column("label").to_numpy().astype(np.int64))


def planes(pixels: Bytes) -> Tensor:
    """[n, height, width, channels] as [n, channels, height, width], copied, so that it may be written to."""
    return torch.from_numpy(np.array(pixels.transpose(0, 3, 1, 2), order="C"))


def idx(path: Path) -> Bytes:
    """MNIST's own format, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if data[:3] != b"\0\0\x08":
        raise DataError(f"{path}: this is no IDX file of bytes: fetch it anew")
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4).tolist()
    if len(data) != 4 + 4 * data[3] + int(np.prod(shape)):
        raise DataError(f"{path}: torn: {len(data):,} bytes where {shape} pictures were announced: fetch it anew")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def mnist_like(where: Path, classes: int = 10) -> Found:
    """The layout that MNIST, Fashion-MNIST and KMNIST share; `train_subset.parquet` is the first part of the training pictures."""
    train = next((path for path in (where / "train.parquet", where / "train_subset.parquet") if path.is_file()), None)
    if train and (where / "test.parquet").is_file():
        parts = [images(path, (28, 28, 1)) for path in (train, where / "test.parquet")]
    else:
        parts = []
        for part in ("train", "t10k"):
            pixels = idx(file(where, f"{part}-images-idx3-ubyte.gz", f"{part}-images-idx3-ubyte"))
            y = idx(file(where, f"{part}-labels-idx1-ubyte.gz", f"{part}-labels-idx1-ubyte"))
            parts.append((planes(pixels[..., None]), torch.from_numpy(y.astype(np.int64))))
    return pictures(parts, classes)


def pictures(parts: Sequence[tuple[Tensor, Tensor]], classes: int, names: Sequence[str] | None = None) -> Found:
    """Train and test part of pictures with one label, 0 to classes - 1."""
    x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
    if len(x) != len(y) or (len(y) and not 0 <= int(y.min()) <= int(y.max()) < classes):
        raise DataError(f"{len(x)} pictures have {len(y)} labels from {int(y.min())} to {int(y.max())}; one each, 0 to {classes - 1}, was expected")
    test = torch.zeros(len(x), dtype=torch.bool)
    test[len(x) - len(parts[-1][0]) :] = True
    kinds: tuple[str | int, ...] = tuple(names) if names else tuple(range(classes))
    return Found(Table(pictures=x), Labels(y, Task("multiclass", classes), kinds, ("label",)), {"label": Declared(values=kinds)}, test)


def matlab(path: Path) -> Mapping[str, Any]:  # Any: arrays by name
    """A .mat file of version 5; it holds numbers and text only, nothing that runs."""
    scipy: Any = importlib.import_module("scipy.io")  # Any: a library without types
    try:
        contents: Mapping[str, Any] = scipy.loadmat(path)
    except (NotImplementedError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a MATLAB 5 file ({error}): save it with -v7") from error
    return contents


def picture(path: Path, size: int) -> Bytes:
    """A PNG or JPEG as grey [size, size]."""
    try:
        pil: Any = importlib.import_module("PIL.Image")  # Any: imported when used
    except ImportError as error:
        raise DataError(f"{path}: reading pictures needs Pillow: pip install pillow") from error
    with pil.open(path) as image:
        return np.asarray(image.convert("L").resize((size, size)), np.uint8)
