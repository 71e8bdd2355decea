"""`reticent data`: which real sets there are, and getting one; `--split` writes it as parties would hold it, a file each."""

import dataclasses
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import torch
import typer

from reticent import study
from reticent.cli.app import AsJson, app, grid, homes, say
from reticent.cli.app import Data as Folders
from reticent.data import federated, sets, splits
from reticent.data.federated import Deal
from reticent.data.labels import Labels
from reticent.data.sets import Set
from reticent.data.tables import Table
from reticent.errors import DataError, ReticentError, StudyError
from reticent.party import generator

group = typer.Typer(help="Real data sets.", no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(group, name="data")

TEST = 0.2  # share of the rows that the study tests with


@group.command("list")
def listing(data: Folders = None, as_json: AsJson = False) -> None:
    """Lists the sets, and which of them are on this machine."""
    found = [described(name, [Path(home) for home in homes(data)]) for name in sets.names()]
    shown = grid("set", "rows", "columns", "task", "here", "licence and official home", texts=["licence and official home"])
    for entry in found:
        here = "no" if entry["here"] is None else "subset" if not entry["complete"] else "yes"
        columns = f"{entry['columns']}" if entry["columns"] is not None else ""
        shown.add_row(entry["name"], f"{entry['rows']:,}", columns, entry["task"] or "", here, f"{entry['licence']}: {entry['home']}")
    say({"sets": found}, as_json, shown)


@group.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A set's name, or a path to a CSV or Parquet with --label.")],
    dest: Annotated[Path | None, typer.Option(help="The folder of sets to put it into; else the user's cache.")] = None,
    split: Annotated[str, typer.Option(help="Writes it as parties would hold it: equal, columns, views, importance, quadrants, halves.")] = "",
    parties: Annotated[int | None, typer.Option(min=1, help="How many parties, for equal.")] = None,
    columns: Annotated[str, typer.Option(help="For columns: how many each party holds, as 5,6,6,6.")] = "",
    views: Annotated[str, typer.Option(help="For views: which, as person,status,bills; else all.")] = "",
    alpha: Annotated[float | None, typer.Option(help="For importance: the host's share of the best columns.")] = None,
    host: Annotated[str, typer.Option(help='Who holds the label: a number, a name, or "labels-only".')] = "0",
    names: Annotated[str, typer.Option(help="The parties' names, as bank,shop,telco; else p0, p1, …")] = "",
    label: Annotated[str | None, typer.Option(help="What is to be learnt, where the set offers several.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="A seeded sample of the rows.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where the parties' files are written.")] = None,
    data: Folders = None,
    as_json: AsJson = False,
) -> None:
    """Fetches a set, or deals it to parties, a file each."""
    at = [Path(home) for home in ([dest] if dest is not None else []) + list(map(Path, homes(data)))]
    if not split:
        where = None if dest is not None else found_at(name, at)
        here = where or sets.get(name, dest or sets.cache())
        said = f"{name} is on this machine: {here}" if where else f"{name} was fetched from its official home to {here}"
        say({"set": name, "where": str(here), "fetched": where is None}, as_json, said)
        return
    if out is None:
        raise StudyError(
            f"--split {split} writes a file a party: say where with --out DIR, as in `reticent data get {name} --split equal --parties 4 --out parties`"
        )
    if out.exists() and any(out.iterdir()):
        raise ReticentError(f"{out} is not empty, and nothing is written over: name another folder with --out")
    found = sampled(sets.load(name, label, folder=at), rows, seed)
    widths = tuple(map(whole, columns.split(","))) if columns else None
    deal = federated.deal(
        found, split=split, parties=parties, host=int(host) if host.isdigit() else host, columns=widths, views=views.split(",") if views else None,
        alpha=alpha, test=TEST, seed=seed, names=names.split(",") if names else None,
    )  # fmt: skip
    if deal.rows:
        raise StudyError(f'--split {split} deals rows, and a party file holds columns of all rows: take "equal", "columns" or another split of columns')
    written = write(deal, found, out)
    words = ["reticent", "run", str(out / "study.toml"), *(word for party in written.values() for word in ("--parties", party))]
    result = {
        "set": name,
        "out": str(out),
        "parties": written,
        "study": str(out / "study.toml"),
        "host": deal.host,
        "rows": len(found.table),
        "run": " ".join(words),
    }
    say(result, as_json, "\n".join([*written.values(), f"{out / 'study.toml'}", f"Next: {' '.join(words)}"]))


def found_at(name: str, at: Sequence[Path]) -> Path | None:
    """Where `sets.load` would read a set from."""
    known = (name, *getattr(sets.loader(name), "aliases", ()))
    folders = [root / alias for root in (*at, sets.cache()) for alias in known]
    here = next((folder for folder in folders if folder.is_dir()), None)
    package = Path(sets.__file__).parent
    return here or (package if (package / f"{name}.parquet").is_file() else None)


def described(name: str, at: Sequence[Path]) -> dict[str, Any]:  # Any: JSON
    loader, where = sets.loader(name), found_at(name, at)
    said: dict[str, Any] = {
        "name": name,
        "rows": loader.rows,
        "columns": None,
        "task": None,
        "complete": None,
        "here": None,
        "licence": loader.licence,
        "home": loader.home,
    }
    if where is None:
        return {**said, "get": f"reticent data get {name}" if loader.files else loader.by_hand}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = loader.read(where, None)
        except DataError as error:
            return {**said, "here": str(where), "complete": False, "trouble": str(error)}
    count = found.counted or len(found.table)
    task = found.labels.task
    more = f", {task.outputs}" if task.kind in ("multiclass", "multilabel") else ""
    return {
        **said, "rows": count, "columns": found.table.width, "pictures": list(found.table.pictures.shape[1:]) if found.table.pictures is not None else None,
        "task": f"{task.kind}{more}", "complete": count >= loader.rows, "here": str(where), "published": loader.rows, "views": list(found.views),
    }  # fmt: skip


def whole(word: str) -> int:
    if not word.strip().isdigit() or not int(word):
        raise StudyError(f"--columns: {word!r} is no number of columns; write how many each party holds, as in 5,6,6,6")
    return int(word)


def sampled(found: Set, rows: int | None, seed: int) -> Set:
    """The set as one table: parties' own files have no test part, the study draws one."""
    if rows is None:
        return dataclasses.replace(found, test=None)
    chosen = splits.sample(len(found.table), rows, generator(seed, "rows"))
    return dataclasses.replace(found, test=None, table=found.table.take(chosen), labels=found.labels.take(chosen))


def write(deal: Deal, found: Set, out: Path) -> dict[str, str]:
    """A table and a party file each, and the study; the paths of the party files by name."""
    out.mkdir(parents=True, exist_ok=True)
    targets = answers(deal.labels)
    taken = {column for table in deal.tables.values() for column in table.names} | set(targets)
    id = next(word for word in ("id", "row", "row_id", *(f"id_{i}" for i in range(len(taken) + 1))) if word not in taken)
    written = {}
    for name, table in deal.tables.items():
        frame = pl.DataFrame({id: pl.Series(range(len(table)), dtype=pl.Int64)}).hstack(flat(table).get_columns())
        hosting = name == deal.host
        if hosting:
            frame = frame.with_columns(pl.Series(column, values) for column, values in targets.items())
        frame.write_parquet(out / f"{name}.parquet")
        labelled = {"label": next(iter(targets)) if len(targets) == 1 else list(targets)} if hosting else {}
        tree = {"name": name, "table": f"{name}.parquet", "id": id, **labelled, "policy": {"unnoised": "to-host"}}
        (out / f"{name}.toml").write_text(
            f"# Private to {name}, never sent. `reticent init` writes one with every key explained.\n{study.write_toml(tree)}", encoding="utf-8"
        )
        written[name] = os.path.join(out, f"{name}.toml")
    shared: dict[str, object] = {
        "study": {
            "name": Path(found.name).stem,
            "algorithm": "fedonce",
            "task": "regression" if deal.labels.task.kind == "regression" else "classification",
            "wire": "processes",
        },
        "parties": {"host": deal.host, "guests": [name for name in deal.names if name != deal.host]},
        "rows": {"test": TEST},
    }
    (out / "study.toml").write_text(f"# {found.name}: {found.licence}. The same at every party.\n{study.write_toml(shared)}", encoding="utf-8")
    return written


def flat(table: Table) -> pl.DataFrame:
    """A party's columns; of pictures one for each number, since a table's file holds no pictures."""
    if table.pictures is not None:
        pixels = table.pictures.flatten(1)
        return pl.from_numpy(pixels.numpy(), schema=[f"px{i}" for i in range(pixels.shape[1])])
    return pl.DataFrame() if table.columns is None else table.columns


def answers(labels: Labels) -> dict[str, list[Any]]:  # Any: classes are text or numbers
    """The label's columns as a party's own file has them."""
    if labels.task.kind == "multilabel":
        return {name: labels.y[:, i].to(torch.int64).tolist() for i, name in enumerate(labels.names)}
    if labels.task.kind == "regression":
        return {labels.names[0]: labels.y.tolist()}
    return {labels.names[0]: [labels.classes[int(i)] for i in labels.y.tolist()]}
