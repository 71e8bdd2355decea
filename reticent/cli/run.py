"""`reticent run`: a study from start to end, all parties on this machine."""

import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from reticent import plan as plans
from reticent import run as runs
from reticent import study, sweeps
from reticent.cli.app import AsJson, Data, Device, Threads, app, bars, count, grid, homes, say, screen
from reticent.errors import JournalError, StudyError


@app.command()
def run(
    path: Annotated[Path, typer.Argument(metavar="STUDY", help="The study file.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="Overrides a key: config.dim=16.")] = None,
    wire: Annotated[str | None, typer.Option(help="inprocess or processes, instead of the study's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Instead of the study's.")] = None,
    compare: Annotated[str, typer.Option(help="Baselines to run beside it: solo,combined,splitnn.")] = "",
    out: Annotated[Path | None, typer.Option(help="Where the run is kept; else runs/NAME-TIME.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Check everything and say what would be sent; send nothing.")] = False,
    seeds: Annotated[str, typer.Option(help="Several runs: 0-4, or 0,3,9.")] = "",
    folds: Annotated[int | None, typer.Option(min=2, help="Cross-validation with so many folds.")] = None,
    parties: Annotated[list[Path] | None, typer.Option("--parties", help="A party file; once for each party.")] = None,
    device: Device = "cpu",
    threads: Threads = 1,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Runs a study, all its parties on this machine."""
    wanted = study.read_study(path, sets or [], seed, wire)
    options = runs.Options(
        wire=wanted.study.wire, threads=threads, device=device, compare=tuple(filter(None, compare.split(","))),
        parties=tuple(str(p.absolute()) for p in parties or []), homes=homes(data),
    )  # fmt: skip
    if dry:
        from reticent.cli.price import foretell

        foretell(wanted, options, as_json)
        return
    folder = out or Path("runs") / f"{runs.slug(wanted.study.name)}-{time.strftime('%Y%m%d-%H%M%S')}"
    if (folder / "run.json").exists():
        raise JournalError(f"{folder} holds a run already: `reticent resume {folder}` goes on with it, or choose another --out")
    folds = folds or (wanted.data.folds if wanted.data else wanted.rows.folds)
    chosen = numbers(seeds) if seeds else [wanted.study.seed]
    here = os.path.relpath(folder)
    if not as_json:
        print(f"kept in {here}; if it is stopped, `reticent resume {here}` goes on with it", file=sys.stderr)
    with bars(as_json) as progress:
        if len(chosen) > 1 or folds:
            result = sweeps.sweep(wanted, options, folder.absolute(), chosen, folds, progress)
        else:
            result = sweeps.conduct(plans.with_seed(wanted, chosen[0]), options, folder.absolute(), progress)
    say(result, as_json, shown(result))
    if not as_json:
        print(f"done; `reticent report {here}` writes it up", file=sys.stderr)


def numbers(text: str) -> list[int]:
    found = re.fullmatch(r"(\d+)-(\d+)", text.strip())
    try:
        chosen = list(range(int(found[1]), int(found[2]) + 1)) if found else [int(word) for word in text.split(",")]
    except ValueError:
        raise StudyError(f"--seeds {text!r}: write 0-4, or 0,3,9") from None
    if not chosen:
        raise StudyError(f"--seeds {text!r}: no seed is in it; write 0-4, or 0,3,9")
    return chosen


def shown(result: dict[str, Any]) -> Table:  # Any: JSON
    """Who did how well, at what cost."""
    metrics = [name for name in ("auc", "accuracy", "majority", "rmse", "r2") if name in result["metrics"]]
    made = grid("", *metrics, "rounds", "up", "down", "seconds")
    for name, one in {result["algorithm"]: result, **result.get("compare", {})}.items():
        spread = one.get("spread", {})
        cells = [f"{one['metrics'][m]:.4f}" + (f" ± {spread[m]:.4f}" if m in spread else "") if m in one["metrics"] else "" for m in metrics]
        label = f"{name} (simulated)" if one.get("simulated") else name
        made.add_row(
            label, *cells, f"{one['rounds']['fit']}", count(one["bytes"]["fit"]["up"]), count(one["bytes"]["fit"]["down"]), f"{one['seconds']['fit']:.1f}"
        )
    for name, why in result.get("failed", {}).items():
        screen.print(f"{name} could not be run beside it: {why}", markup=False)
    return made
