"""`reticent check`: both files and the table, as a run would find them; sends nothing."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from reticent import audit, study
from reticent import plan as plans
from reticent.cli.app import AsJson, app, grid, say
from reticent.data import encoding
from reticent.data.encoding import Column
from reticent.data.labels import Labels, counts
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError
from reticent.plan import Plan
from reticent.study import PartyFile

RARE = 10  # rows of a class below which nothing is learnt of it, nor measured
HOLLOW = 0.5  # share of missing values from which a column is spoken of


@app.command()
def check(
    party: Annotated[Path, typer.Argument(metavar="PARTY", help="The party file.")],
    path: Annotated[Path | None, typer.Argument(metavar="STUDY", help="The study file, the same as all parties'.")] = None,
    as_json: AsJson = False,
) -> None:
    """Checks a party's file, its table, and the study it would take part in."""
    file = study.read_party(party)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what labels warn of is said below, in the same place as all else
        plan, table, labels = gather(file, path)
    frame = pl.DataFrame() if table.columns is None else table.columns
    try:
        columns = encoding.fit(frame).columns if frame.width else ()
    except DataError as error:
        raise DataError(f"{file.table}: {error}") from error
    said: dict[str, Any] = {  # Any: JSON
        "party": file.name,
        "role": None if plan is None else "host" if file.name == plan.host else "guest",
        "study": None if plan is None else {"name": plan.study.study.name, "algorithm": plan.study.study.algorithm, "hash": plan.hash},
        "rows": len(table),
        "columns": [{"name": c.name, "kind": encoding.words[c.family], "missing": gaps(frame[c.name]), "encoded": len(c.names)} for c in columns],
        "label": None if labels is None else described(labels),
        "verbs": [] if plan is None else leaving(plan, file),
        "warnings": [*of_columns(frame, columns), *of_labels(labels), *of_policy(plan, file, sum(len(c.names) for c in columns))],
    }
    shown = grid("column", "kind", "missing", "encoded as", title=f"{file.name}: {len(table):,} rows; nothing was sent")
    for column in said["columns"]:
        shown.add_row(column["name"], column["kind"], f"{column['missing']:,}", f"{column['encoded']}")
    say(said, as_json, shown)
    if not as_json:
        say({}, False, "\n".join([*spoken(said), *(f"! {warning}" for warning in said["warnings"])]))


def gather(file: PartyFile, path: Path | None) -> tuple[Plan | None, Table, Labels | None]:
    if path is None:
        return None, *plans.read(file)
    wanted = study.read_study(path)
    if wanted.parties is None:
        raise StudyError(f"{path} simulates its data and names no parties: check {file.name}'s file with a study that has [parties]")
    if file.name not in (wanted.parties.host, *wanted.parties.guests):
        raise StudyError(f"{file.path} is {file.name}'s, but {path} names {wanted.parties.host} as host and {', '.join(wanted.parties.guests)} as guests")
    plan = plans.make(wanted, files={file.name: file})
    _, labels = plans.read(file, wanted)
    return plan, plan.deal.tables[file.name], labels


def gaps(series: pl.Series) -> int:
    return int(series.null_count()) + (int(series.is_nan().sum()) if series.dtype.is_float() else 0)


def described(labels: Labels) -> dict[str, Any]:  # Any: JSON
    labels = labels if labels.known is None else labels.take(labels.known)
    said: dict[str, Any] = {"name": ", ".join(labels.names), "task": labels.task.kind}
    if labels.task.kind == "regression":
        return {**said, "min": float(labels.y.min()), "mean": float(labels.y.mean()), "max": float(labels.y.max())}
    if labels.task.kind == "multilabel":
        return {**said, "positive": {name: int(n) for name, n in zip(labels.names, labels.y.sum(0).tolist(), strict=True)}}
    return {**said, "classes": dict(zip(map(str, labels.classes), counts(labels, labels.y == labels.y), strict=True))}


def leaving(plan: Plan, file: PartyFile) -> list[dict[str, Any]]:  # Any: JSON
    """What would leave: a guest's answers, or the host's questions."""
    if file.name == plan.host:
        return [
            {"verb": e["verb"], "message": e["question"], "reveals": e["question_reveals"], "unnoised": e["question_unnoised"]}
            for e in audit.exits(plan.algorithm)
        ]
    allowed = file.policy.verbs
    return [
        {
            "verb": e["verb"],
            "message": e["answer"],
            "reveals": e["reveals"],
            "unnoised": e["unnoised"],
            "allowed": allowed is None or e["verb"] in (*allowed, "meet"),
        }
        for e in audit.exits(plan.algorithm)
    ]


def spoken(said: dict[str, Any]) -> Iterator[str]:  # Any: JSON
    if said["label"]:
        found = said["label"]
        more = found.get("classes") or found.get("positive")
        what = ", ".join(f"{value}: {count:,}" for value, count in more.items()) if more else f"{found['min']:g} to {found['max']:g}, mean {found['mean']:g}"
        yield f"label {found['name']} ({found['task']}): {what}"
    if said["study"]:
        yield f"{said['role']} of {said['study']['name']}; the study's hash is {said['study']['hash'][:16]}…, which must be every party's"
    for verb in said["verbs"]:
        yield f"would leave, {verb['verb']}: {verb['message']}: {verb['reveals']}"


def of_columns(frame: pl.DataFrame, columns: tuple[Column, ...]) -> Iterator[str]:
    for column in columns:
        series, name = frame[column.name], column.name
        if column.kind == "constant":
            yield f'column "{name}" has one value only and tells nothing: drop = ["{name}"] leaves it out'
        elif gaps(series) > HOLLOW * len(series):
            yield f'column "{name}" is empty in {gaps(series):,} of {len(series):,} rows'
        elif column.family == "text" and len(series) > RARE and series.n_unique() == len(series):
            yield f'column "{name}" differs in every row, as a name or a number of a person does: drop = ["{name}"] leaves it out'
        elif column.other:
            yield f'column "{name}" has {series.n_unique():,} categories: the {len(column.categories)} most frequent are kept apart, the rest is "other"'


def of_labels(labels: Labels | None) -> Iterator[str]:
    if labels is None:
        return
    if labels.known is not None:
        yield f"{int((~labels.known).sum()):,} of {len(labels):,} rows have no label: they neither train nor test, and can be predicted"
        labels = labels.take(labels.known)
    if labels.task.kind not in ("binary", "multiclass"):
        return
    found = counts(labels, labels.y == labels.y)
    if sum(count > 0 for count in found) < 2:
        yield f"the label has one class only, {labels.classes[0]!r}: nothing can be learnt to tell apart"
        return
    for value, count in zip(labels.classes, found, strict=True):
        if count < RARE:
            yield f"class {value!r} has {count} rows: too few to learn it or to measure how well it is learnt"


def of_policy(plan: Plan | None, file: PartyFile, width: int) -> Iterator[str]:
    if plan is None or file.name == plan.host:
        return
    exits = {entry["verb"]: entry for entry in audit.exits(plan.algorithm)}
    algorithm, policy = plan.study.study.algorithm, file.policy
    if file.label is not None:
        yield f"{file.name} is a guest: its label column takes no part and is never sent"
    if policy.verbs is not None:
        yield from (f"policy: verb {verb!r} is none of {algorithm}'s, which has {', '.join(exits)}" for verb in policy.verbs if verb not in exits)
        yield from (
            f"policy: {algorithm} asks {verb!r}, which is not among verbs: such a question is refused" for verb in exits if verb not in (*policy.verbs, "meet")
        )
    if policy.unnoised == "never":
        bare = [verb for verb, entry in exits.items() if entry["unnoised"]]
        yield from (f'policy: unnoised = "never", and {verb!r} answers without noise: {file.name} would refuse to start' for verb in bare)
    dim = getattr(plan.config, "dim", None)
    if getattr(plan.config, "encoder", None) in ("auto", "pca", "rank-pca", "identity") and isinstance(dim, int) and 0 < width <= dim:
        yield f"dim = {dim}, and this table has {width} encoded columns: with PCA all that is in them is told; a smaller dim tells less"
