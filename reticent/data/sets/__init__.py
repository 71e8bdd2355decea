"""Real data by name: one file a set, found on disk or fetched from its official home.

A set is looked for in the folders given (the command line gives what RETICENT_DATA names), then in the user's cache, then in
what ships with the package, each under `NAME/`, as Parquet or in the layout of its official home.
"""

import importlib
import pkgutil
import shutil
import tarfile
import urllib.error
import urllib.request
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from reticent.data import tables
from reticent.data.sets._shared import Loader, Set, finish
from reticent.errors import DataError, StudyError

__all__ = ["Loader", "Set", "get", "home", "load", "loader", "names"]

PACKAGE = Path(__file__).parent


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(PACKAGE)]) if not module.name.startswith("_"))


def loader(name: str) -> Loader:
    if name not in names():
        raise StudyError(f'set = "{name}" is unknown: {", ".join(names())}, or a path to a .parquet or .csv with label = "…"')
    module: Loader = importlib.import_module(f"reticent.data.sets.{name}")
    return module


def home(environ: Mapping[str, str]) -> list[Path]:
    """Folders to look in, by an environment that the command line hands over: RETICENT_DATA, then the user's cache."""
    named = [Path(environ["RETICENT_DATA"])] if environ.get("RETICENT_DATA") else []
    return [*named, Path(environ["XDG_CACHE_HOME"]) / "reticent"] if environ.get("XDG_CACHE_HOME") else [*named, cache()]


def cache() -> Path:
    return Path.home() / ".cache" / "reticent"


def load(
    name: str,
    label: str | Sequence[str] | None = None,
    folder: Path | Sequence[Path] | None = None,
    task: Literal["classification", "regression", "auto"] = "auto",
) -> Set:
    """A set by its name, or a path to a table with `label`."""
    if "/" in name or Path(name).suffix in tables.suffixes:
        return from_file(name, label, task)
    if label is not None and not isinstance(label, str):
        raise StudyError(f'set = "{name}": one label is possible, {", ".join(label)} were named')
    found = loader(name)
    given = [] if folder is None else [folder] if isinstance(folder, Path) else list(folder)
    for root in [*given, cache()]:
        for where in (root / alias for alias in (name, *getattr(found, "aliases", ()))):
            if where.is_dir():
                return finish(name, found, where, label)
    if (PACKAGE / f"{name}.parquet").is_file():
        return finish(name, found, PACKAGE, label)
    how = f"run `reticent data get {name}` or" if found.files else f"{found.by_hand}, and"
    raise DataError(
        f'set "{name}" is not on this machine: {how} put its files in {name}/ of the folder that RETICENT_DATA names (from Python: folder = "…"; official home: {found.home})'
    )


def from_file(path: str, label: str | Sequence[str] | None, task: Literal["classification", "regression", "auto"] = "auto") -> Set:
    if label is None:
        raise StudyError(f'set = "{path}" needs to know what is to be learnt: say label = "…", one of its columns')
    table, found = tables.read(path, label=label, task=task)
    assert found is not None
    return Set(path, table, found, None, {}, True, tables.digest_of(table, found), "the owner's", "")


def get(name: str, dest: Path) -> Path:
    """Fetches a set's official files into `dest/NAME`, unpacks them, checks that they can be read, and returns the folder."""
    found = loader(name)
    if not found.files:
        raise DataError(f"{name} cannot be fetched by a program: {found.by_hand}")
    where = dest / name
    where.mkdir(parents=True, exist_ok=True)
    for url, file in found.files.items():
        beside = where / f"{file}.part"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer, beside.open("wb") as out:
                shutil.copyfileobj(answer, out)
            beside.rename(where / file)
            unpack(where / file, where)
        except (urllib.error.URLError, OSError, ValueError, zipfile.BadZipFile, tarfile.TarError) as error:
            beside.unlink(missing_ok=True)
            raise DataError(f"{name}: {url} could not be fetched ({error}): check the network, or put {file} into {where} by hand") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        finish(name, found, where, None)
    return where


def unpack(archive: Path, where: Path) -> None:
    """Archives only; the "data" filter keeps every file inside the folder."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as file:
            file.extractall(where)
    elif archive.name.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(archive) as tar:
            tar.extractall(where, filter="data")
