"""`reticent predict`: scores for people whom all parties hold, by a run that is done. Guests on this machine are asked again."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import torch
import typer
from torch import Tensor

from reticent import run as runs
from reticent import state, study
from reticent.cli.app import AsJson, app, count, say
from reticent.data import encoding, tables
from reticent.data.encoding import listed
from reticent.data.labels import Labels
from reticent.errors import DataError, JournalError, StudyError
from reticent.plan import Plan
from reticent.run import Run

NUMBERS = ("row", "id")  # what a column of row numbers may be called, where the study simulates its data


@app.command()
def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    rows: Annotated[Path, typer.Option(help="A CSV or Parquet with the study's id column (simulated data: row, the numbers of rows).")],
    out: Annotated[Path | None, typer.Option(help="Where to write: .csv or .parquet; else standard output, as CSV.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predicts for people who stand in every party's table."""
    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise DataError(f"{out}: predictions are written as .csv or .parquet; give --out such a name")
    folder = folder.absolute()
    whole(folder)
    asked = read(rows)
    run = runs.reopen(folder)
    try:
        alike(run.plan)
        ids, numbers = find(run.plan, asked, rows)
        before = left(run)
        scores = run.scores(numbers)
        crossed = {way: size - before[way] for way, size in left(run).items()}
    finally:
        run.close()  # also after a refusal: letters that crossed have their numbers
    made = told(ids, scores, run.plan.deal.labels)
    if out is not None:
        file = pl.DataFrame.write_csv if out.suffix == ".csv" else pl.DataFrame.write_parquet
        beside = out.with_name(out.name + ".made")
        file(made, beside)
        state.write(out, beside.read_bytes())  # readable by its owner only: it speaks of people
        beside.unlink()
    elif not as_json:
        print(made.write_csv(), end="")
    result: dict[str, Any] = {"rows": made.height, "predictions": made.to_dicts(), "bytes": crossed, **({"out": str(out)} if out else {})}  # Any: JSON
    say(result, as_json, f"{made.height:,} predictions in {out}; {count(crossed['up'])} up, {count(crossed['down'])} down" if out else None)


def left(run: Run) -> dict[str, int]:
    """Bytes that crossed so far, both ways."""
    guests = run.federation.guests
    return {"up": sum(run.ledger.bytes_of(name, "up") for name in guests), "down": sum(run.ledger.bytes_of(name, "down") for name in guests)}


def whole(folder: Path) -> None:
    """All parties' files must be on this machine: the guests of a run between machines went home."""
    found = runs.noted(folder)
    if not (folder / "study.toml").exists():
        raise JournalError(f"{folder} holds several runs, or none: name one of the folders in it, as in {folder}/seed-0")
    wanted = study.read_study(folder / "study.toml")
    if wanted.parties is None:
        return
    here = {study.read_party(Path(path)).name for path in found["options"]["parties"]}
    gone = [name for name in (wanted.parties.host, *wanted.parties.guests) if name not in here]
    if gone:
        raise StudyError(
            f"{folder}: the tables of {', '.join(gone)} are not on this machine, and to predict every party is asked: this was a run between machines"
        )


def read(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file; --rows names a CSV or Parquet with the ids to predict for")
    found = tables.frame(path)
    if not found.height:
        raise DataError(f"{path}: no row is in it; at least one id is needed")
    return found


def alike(plan: Plan) -> None:
    """A row's number is its place among the sorted ids, so a table that lost a person would answer about another one."""
    host = plan.deal.tables[plan.host]
    for name in plan.guests:
        table = plan.deal.tables[name]
        if len(table) != len(host):
            raise DataError(f"{plan.host} holds {len(host):,} rows and {name} {len(table):,}: bring both tables to the same people (reticent align)")
        if host.ids is not None and table.ids is not None and (differ := (host.ids != table.ids)).any():
            place = differ.arg_max() or 0
            raise DataError(
                f'{plan.host} and {name} hold other people, from id "{host.ids[place]}" and "{table.ids[place]}" on: bring both tables to the same people'
            )


def find(plan: Plan, asked: pl.DataFrame, path: Path) -> tuple[pl.Series, Tensor]:
    """The ids as the file has them, and the rows they are at the parties."""
    file = plan.files.get(plan.host)
    named = (file.id,) if file else NUMBERS
    name = next((name for name in named if name in asked.columns), None)
    if name is None:
        raise DataError(f'{path}: the id column "{named[0]}" is missing; the file has {listed(asked.columns)}')
    table = plan.deal.tables[plan.host]
    places = {str(i): i for i in range(len(table))} if table.ids is None else {value: i for i, value in enumerate(table.ids.to_list())}
    said = encoding.texts(asked[name])
    if path.suffix == ".csv":  # 007 is read as 7; where nobody is called so, what stands in the file counts
        raw = pl.read_csv(path, columns=[name], infer_schema=False)[name]
        said = pl.Series(name, [text if text in places else word for text, word in zip(said.to_list(), raw.to_list(), strict=True)], pl.String)
    if said.null_count():
        raise DataError(f'{path}: id column "{name}" is empty in {said.null_count()} rows, first in row {said.is_null().arg_max()}: give every row its id')
    unknown = [text for text in said.to_list() if text not in places]
    if unknown:
        raise DataError(f"{path}: {len(unknown)} of {len(said)} ids are in no party's table: {listed(unknown)}; the parties hold {len(table):,} rows")
    return asked[name], torch.tensor([places[text] for text in said.to_list()], dtype=torch.int64)


def told(ids: pl.Series, scores: Tensor, labels: Labels) -> pl.DataFrame:
    """The id, raw scores, chances, and what is predicted."""
    kind, likely = labels.task.kind, runs.decided(scores, labels)
    columns: dict[str, Any] = {ids.name: ids}  # Any: a series or an array
    if kind == "regression":
        return pl.DataFrame({**columns, "score": scores.numpy(), "prediction": likely})
    chances = runs.chances(scores, kind)
    if kind == "binary":
        return pl.DataFrame({**columns, "score": scores.numpy(), "chance": chances[:, 1].numpy(), "prediction": likely})
    for i, name in enumerate(labels.names if kind == "multilabel" else labels.classes):
        columns |= {f"score_{name}": scores[:, i].numpy(), f"chance_{name}": chances[:, i].numpy()}
    return pl.DataFrame({**columns, "prediction": likely} if kind == "multiclass" else columns)
