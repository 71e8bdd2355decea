"""`reticent price`: letters, bytes, rounds, minutes and privacy of a run that has not been. Nothing is sent."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from reticent import plan as plans
from reticent import pricing, study
from reticent.cli.app import AsJson, Data, Device, Threads, app, count, grid, homes, say
from reticent.run import Options
from reticent.study import Study


@app.command()
def price(
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")],
    parties: Annotated[list[Path] | None, typer.Option("--parties", help="A party file that is on this machine; your own is enough.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="Overrides a key: config.dim=16.")] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the study's.")] = None,
    compare: Annotated[str, typer.Option(help="Baselines to price beside it: splitnn.")] = "",
    device: Device = "cpu",
    threads: Threads = 1,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Says what a run would cost, before anything is sent."""
    files = tuple(str(file.absolute()) for file in parties or [])
    options = Options(threads=threads, device=device, compare=tuple(filter(None, compare.split(","))), parties=files, homes=homes(data))
    foretell(study.read_study(path, sets or [], seed), options, as_json)


def foretell(wanted: Study, options: Options, as_json: bool) -> None:
    """Prints what this study would cost, and its baselines; also what `run --dry` says."""
    files = {file.name: file for file in map(study.read_party, map(Path, options.parties))}
    folds = wanted.data.folds if wanted.data else wanted.rows.folds
    fold = 0 if folds and options.fold is None else options.fold  # every fold costs the same
    at = [Path(home) for home in options.homes]
    plan = plans.make(wanted, homes=at, files=files, fold=fold)
    found = pricing.rehearse(plan, options.device, options.threads)
    for name in options.compare:
        other = plans.make(plans.baseline(plan, name), homes=at, files=files, fold=fold)
        found.setdefault("compare", {})[name] = pricing.rehearse(other, options.device, options.threads)
    say(found, as_json, shown(found))
    if not as_json:
        said = [found["accuracy"] + ".", *found["assumed"], found["privacy"]["statement"], *(f"! {warning}" for warning in found["warnings"])]
        say({}, False, "\n".join(said))


def shown(found: dict[str, Any]) -> Table:  # Any: JSON
    made = grid(
        "",
        "rounds",
        "letters a guest",
        "up",
        "down",
        "minutes",
        title=f"What it would cost: {found['rows']['train']:,} rows train, {found['rows']['test']:,} test",
    )
    for name, one in {found["algorithm"]: found, **found.get("compare", {})}.items():
        made.add_row(
            f"{name}, fit", f"{one['rounds']:,}", f"{one['letters']:,}", count(one["bytes"]["up"]), count(one["bytes"]["down"]), f"{one['minutes']:.2f}"
        )
        if any(one["search"].values()):
            made.add_row("  trials not chosen", "", "", count(one["search"]["up"]), count(one["search"]["down"]), "")
        told = one["predict"]
        made.add_row("  predict the test rows", f"{told['rounds']:,}", f"{told['letters']:,}", count(told["bytes"]["up"]), count(told["bytes"]["down"]), "")
    return made
