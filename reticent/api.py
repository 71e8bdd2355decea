"""What a notebook needs: fit, load, compare, sweep. Everything runs on this machine, as the studies that `reticent run` reads would.

fed = rt.data.default_credit().split(host=13, guests={"shop": 10})
run = rt.fit("fedonce", fed, dim=8)
rt.table(rt.compare(["solo", "fedonce", "combined"], fed, dim=3))
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from reticent import algorithms, sweeps
from reticent import run as runs
from reticent import study as studies
from reticent.data.simulated import Federation, dotted
from reticent.errors import JournalError, StudyError
from reticent.party import Progress
from reticent.run import Options, Run
from reticent.study import Study

__all__ = ["compare", "fit", "load", "study_of", "sweep", "table"]

Algorithm = Any  # Any: a name, or a module or class with Config, Guest and Host


def fit(
    algorithm: Algorithm,
    fed: Federation,
    *,
    seed: int | None = None,
    wire: Literal["inprocess", "processes"] = "inprocess",
    out: str | Path | None = None,
    threads: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
    **config: Any,  # Any: values of the algorithm's Config
) -> Run:
    """Learns from `fed` and measures on its test rows. `config`: the algorithm's own settings, as [config] in a study.

    `algorithm`: a name, a dotted path, or a module or class with Config, Guest and Host. `seed` (the federation's, if not given): of first weights
    and samples; which rows test is the federation's. `out`: a folder to keep the run in, which a killed run goes on from. The run's doors
    stay open to predict with: close it, or use it in a `with` statement. Torch computes with `threads` threads from then on.
    """
    name, chosen = named(algorithm)
    seed = fed.seed if seed is None else seed
    wanted = study_of(name, fed, seed, wire, config)
    folder = None if out is None else Path(out).absolute()
    options = Options(wire=wire, threads=threads, device=device, homes=fed.homes)
    if wire != "inprocess":
        apart(name, fed, wire, folder)
    if folder is not None and (folder / "run.json").exists() and runs.noted(folder)["state"] == "done":
        raise JournalError(f"{folder} holds a finished run: reticent.load opens it; choose another folder for a new one")
    run = runs.to_completion(wanted, options, folder, progress, chosen, fed.found)
    if folder is not None:
        run.save(folder)
    return run


def load(path: str | Path, fed: Federation | None = None, *, algorithm: Algorithm = None, progress: Progress | None = None) -> Run:
    """A run that was saved, to predict with. Sets are found again by name; tables that were in memory are given again in `fed`, and a class
    that no file holds as `algorithm`."""
    return runs.reopen(Path(path).absolute(), progress, None if algorithm is None else named(algorithm)[1], fed.found if fed else None)


def compare(
    names: Sequence[Algorithm],
    fed: Federation,
    *,
    seed: int | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,  # Any: values of a Config
    threads: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
    **config: Any,  # Any: as above
) -> list[dict[str, Any]]:  # Any: JSON, as `reticent run --json` prints it
    """Each algorithm on the same rows; of `config` it takes the fields it has, and `settings` says the rest, by algorithm."""
    found = [named(one) for one in names]
    strange = [key for key in config if not any(studies.fields_shared(chosen.Config, {key: 0}) for _, chosen in found)]
    if strange:
        raise StudyError(f'none of {", ".join(name for name, _ in found)} has a setting "{strange[0]}"; `settings` is for one of them alone')
    lost = [key for key in settings or {} if key not in {name for name, _ in found}]
    if lost:
        raise StudyError(f'settings speak of "{lost[0]}", which is not compared: {", ".join(name for name, _ in found)} are')
    results = []
    for (name, chosen), one in zip(found, names, strict=True):
        own = {**studies.fields_shared(chosen.Config, config), **(settings or {}).get(name, {})}
        with fit(one, fed, seed=seed, threads=threads, device=device, progress=progress, **own) as run:
            results.append(run.result)
    return results


def sweep(
    algorithm: Algorithm,
    fed: Federation,
    settings: Mapping[str, Sequence[object]],
    *,
    seeds: Iterable[int] | None = None,
    threads: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
    **config: Any,  # Any: values of the algorithm's Config
) -> list[dict[str, Any]]:  # Any: JSON, as `reticent run --json` prints it
    """Every combination of `settings` with every seed. Each seed draws its own test rows, as on the command line; none given: the federation's."""
    results = []
    for values in itertools.product(*settings.values()):
        case = dict(zip(settings, values, strict=True))
        for seed in [fed.seed] if seeds is None else seeds:
            with fit(algorithm, fed.with_seed(seed), threads=threads, device=device, progress=progress, **{**config, **case}) as run:
                results.append(run.result)
    return results


def table(results: Iterable[Mapping[str, Any]]) -> Any:  # Any: JSON in, a pandas DataFrame out
    """One line a run: its settings, metrics and costs beside each other (needs pandas)."""
    return sweeps.table(results)


def study_of(name: str, fed: Federation, seed: int, wire: str, config: Mapping[str, Any]) -> Study:  # Any: values of a Config
    """The study that a file would hold."""
    own = {key: dotted(value) if isinstance(value, type) and issubclass(value, torch.nn.Module) else value for key, value in config.items()}
    return studies.study_from(
        {"study": {"name": fed.found.name, "algorithm": name, "task": fed.task, "wire": wire, "seed": seed}, "data": fed.data(seed), "config": own}
    )


def named(algorithm: Algorithm) -> tuple[str, Any]:  # Any: a module or class with Config, Guest and Host
    """An algorithm, and how a study file names it."""
    if isinstance(algorithm, str):
        return algorithm, algorithms.find(algorithm)
    missing = [part for part in ("Config", "Guest", "Host") if not hasattr(algorithm, part)]
    if missing:
        raise StudyError(f"{algorithm!r} has no {', '.join(missing)}: an algorithm is a module or class with Config, Guest and Host")
    name = str(algorithm.__name__)
    if isinstance(algorithm, type):
        return f"{algorithm.__module__}:{algorithm.__qualname__}", algorithm
    home, _, last = name.rpartition(".")
    return (last if home == "reticent.algorithms" else name if "." in name else f"{name}:"), algorithm


def apart(name: str, fed: Federation, wire: str, folder: Path | None) -> None:
    """Refuses what guests in other processes could not find."""
    if folder is None:
        raise StudyError(f'wire = "{wire}" needs a folder: say where, as in out="runs/1"')
    if fed.found.asked is None:
        raise StudyError(
            f'wire = "{wire}": these tables are in the memory of this process alone: write each to a file and its party file, and use `reticent run`'
        )
    if name.startswith("__main__"):
        raise StudyError(f'wire = "{wire}": {name} is known to this process alone: put it into a module on Python\'s path')
    algorithms.find(name)
