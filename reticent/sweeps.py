"""Several runs as one result: a study beside its baselines, over seeds, over folds."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reticent import algorithms, state, study
from reticent import plan as plans
from reticent import run as runs
from reticent.errors import ReticentError, StudyError
from reticent.party import Progress
from reticent.run import Options
from reticent.study import Study

ALONE = ("solo", "combined")


def conduct(wanted: Study, options: Options, folder: Path | None, progress: Progress | None = None, algorithm: Any = None) -> dict[str, Any]:  # Any: JSON
    """One study and the baselines it is compared with, from where they stand to their end; run.json says so."""
    if folder is not None:
        runs.folder_of(folder)
        if (folder / "run.json").exists() and (found := runs.noted(folder))["state"] == "done":
            return dict(found["result"])
    for name in options.compare:
        algorithms.find(name)  # a name that is none should not cost the run it stands beside
    run = runs.to_completion(wanted, options, folder, progress, algorithm)
    run.close()
    result = dict(run.result)
    if folder is not None:
        state.write(folder / "progress.json", json.dumps(run.lines.kept).encode())
        result["out"] = str(folder)
    if options.compare:
        result["compare"] = {}
        for name in options.compare:
            wire = "inprocess" if name in ALONE else options.wire
            within = folder / "compare" / name if folder is not None else None
            try:
                result["compare"][name] = conduct(plans.baseline(run.plan, name), replace(options, wire=wire, compare=()), within, progress)
            except ReticentError as error:  # the run itself is done: a baseline that cannot be had does not undo it
                result.setdefault("failed", {})[name] = f"{type(error).__name__}: {error}"
    if folder is not None:
        runs.note(folder, options, result)
    return result


def sweep(
    wanted: Study, options: Options, folder: Path | None, seeds: Sequence[int], folds: int | None, progress: Progress | None = None
) -> dict[str, Any]:  # Any: JSON
    """A run for each seed and fold; metrics are means, `spread` their standard deviations, `runs` the single results."""
    if folder is not None and len(seeds) * (folds or 1) > 1:
        runs.folder_of(folder)
        runs.note(folder, options, None, {"seeds": list(seeds), "folds": folds})
        if not (folder / "study.toml").exists():
            state.write(folder / "study.toml", study.write_toml(wanted.model_dump(mode="json", exclude_none=True, exclude_defaults=True)).encode())
    cases = [(seed, fold) for seed in seeds for fold in (range(folds) if folds else (None,))]
    results = []
    for seed, fold in cases:
        name = "-".join([f"seed-{seed}"] * (len(seeds) > 1) + [f"fold-{fold}"] * (fold is not None))
        mine = plans.with_seed(wanted, seed)
        if fold is not None:
            mine = _with_folds(mine, folds)
        results.append(conduct(mine, replace(options, fold=fold), folder / name if folder is not None and name else folder, progress))
    if len(results) == 1:
        return results[0]
    result = together(results, folder)
    if folder is not None:
        runs.note(folder, options, result, {"seeds": list(seeds), "folds": folds})
    return result


def _with_folds(wanted: Study, folds: int | None) -> Study:
    if wanted.data is not None:
        return wanted.model_copy(update={"data": wanted.data.model_copy(update={"folds": folds, "test": None, "split_by": None})})
    return wanted.model_copy(update={"rows": wanted.rows.model_copy(update={"folds": folds, "split_by": None})})


def together(results: Sequence[Mapping[str, Any]], folder: Path | None) -> dict[str, Any]:  # Any: JSON
    first = dict(results[0])
    first["metrics"], first["spread"] = means([r["metrics"] for r in results])
    first["seconds"] = means([r["seconds"] for r in results])[0]
    first["seeds"] = [r["seed"] for r in results]
    first["digests"] = [r["digest"] for r in results]
    first["runs"] = [{key: r[key] for key in ("seed", "metrics", "bytes", "seconds", "digest", "out") if key in r} for r in results]
    for key in ("seed", "digest", "study"):
        first.pop(key, None)
    if folder is not None:
        first["out"] = str(folder)
    if "compare" in first:
        first["compare"] = {
            name: together([r["compare"][name] for r in results], None) for name in first["compare"] if all(name in r["compare"] for r in results)
        }
    return first


def means(found: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:  # Any: JSON
    """Means of what is a number, and the standard deviations; what is no number is left out."""
    numbers = [key for key, value in found[0].items() if isinstance(value, int | float) and not isinstance(value, bool)]
    complete = [key for key in numbers if all(isinstance(f.get(key), int | float) for f in found)]
    spread = {key: statistics.stdev([f[key] for f in found]) if len(found) > 1 else math.nan for key in complete}
    return {key: statistics.fmean([f[key] for f in found]) for key in complete}, spread


def table(results: Iterable[Mapping[str, Any]]) -> Any:  # Any: a pandas DataFrame
    """One line a run, its settings, metrics and costs beside each other (needs pandas)."""
    try:
        import pandas
    except ImportError as error:
        raise StudyError("a table of runs needs pandas: pip install pandas") from error
    lines = []
    for result in results:
        flat = {"algorithm": result["algorithm"], "seed": result.get("seed")}
        flat |= {f"config.{key}": value for key, value in result.get("config", {}).items()}
        flat |= {key: value for key, value in result["metrics"].items() if isinstance(value, int | float)}
        flat |= {f"bytes.{way}": result["bytes"]["fit"][way] for way in ("up", "down")} | {
            "rounds": result["rounds"]["fit"],
            "seconds": result["seconds"]["fit"],
        }
        lines.append(flat)
    return pandas.DataFrame(lines)
