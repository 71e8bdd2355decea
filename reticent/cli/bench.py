"""`reticent bench`: a table or figure of a paper, ours beside theirs, as benchmarks/NAME.toml describes it.

    title, source, note             what it is of, and where it stands
    seeds, hosts                    a run for each of both; a case may say its own
    [base.study] [base.data] …      a study
    [scale.small] [scale.paper]     `set`: what differs at this scale; `seeds`, `hosts`; `targets = false`: not held to them
    [[case]]                        `name`; `set`: keys that differ, or a `data` of its own; `compare`: baselines beside it;
                                    `budget_from`: its byte_budget is what that case's same run cost, both ways;
                                    `paper`: the paper's figures; `target`: what it must show, as in
                                        accuracy >= 0.96 · accuracy >= combined - 0.005 · accuracy >= solo + 0.25 at host 0

A target that names another case, or a baseline of its own, compares the runs that both have: the same host, the same seed.
"""

import copy
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from pydantic import Field
from rich.table import Table

import reticent
from reticent import algorithms, study, sweeps
from reticent import plan as plans
from reticent.cli.app import AsJson, Data, Device, app, grid, homes, say, screen
from reticent.cli.run import numbers
from reticent.errors import StudyError
from reticent.run import Options
from reticent.study import Section, Study, Text
from reticent.toml import Source, checked
from reticent.toml import read as read_toml

Person = int | Literal["labels-only"]
Tree = dict[str, Any]  # Any: TOML values or JSON

claim = re.compile(r"(\w+) *(>=|<=) *(?:(\d[\d.e-]*)|([A-Za-z][\w./ -]*?)(?: *([+-]) *(\d[\d.]*))?)(?: +at +host +(\d+))?")
shown_metrics = ("accuracy", "auc", "rmse", "rmse_scaled", "r2")


class Scale(Section):
    """[scale.small], [scale.paper]"""

    set: dict[str, Any] = Field(default={})  # Any: TOML values
    seeds: tuple[int, ...] | None = None
    hosts: tuple[Person, ...] | None = None
    targets: bool = True  # False: a figure of this scale says nothing about them


class Case(Section):
    """[[case]]: a line of the table, and its baselines' below it."""

    name: Text
    set: dict[str, Any] = Field(default={})  # Any: as above
    data: dict[str, Any] | None = None  # instead of the base's
    compare: tuple[Text, ...] = ()
    budget_from: Text | None = None
    seeds: tuple[int, ...] | None = None
    hosts: tuple[Person, ...] | None = None
    paper: dict[str, Any] = Field(default={})  # Any: as above
    target: tuple[Text, ...] = ()


class Bench(Section):
    """A file of benchmarks/."""

    title: Text
    source: Text
    note: str = ""
    seeds: tuple[int, ...] = (0,)
    hosts: tuple[Person, ...] | None = None
    base: dict[str, Any]  # Any: as above
    scale: dict[Literal["small", "paper"], Scale] = Field(default={})
    case: Annotated[tuple[Case, ...], Field(min_length=1)]


@app.command()
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A file of benchmarks/, without .toml, or a path; none: which there are.")] = "",
    scale: Annotated[str, typer.Option(help="small, or paper: as in the paper.")] = "small",
    out: Annotated[Path | None, typer.Option(help="Where the figures go; else benchmarks/results/NAME-SCALE.json.")] = None,
    seeds: Annotated[str, typer.Option(help="Instead of the file's: 0-4, or 0,3,9.")] = "",
    threads: Annotated[int, typer.Option(min=1, help="Threads for arithmetic.")] = 1,
    device: Device = "cpu",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Runs a table of a paper, and prints it beside the paper's figures."""
    if not name:
        listed = {path.stem: described(path) for path in sorted(folder().glob("*.toml"))}
        table = grid("name", "what it is of", "from", texts=["what it is of", "from"])
        for key, found in listed.items():
            table.add_row(key, found.title, found.source)
        say({"benchmarks": {key: {"title": found.title, "source": found.source} for key, found in listed.items()}}, as_json, table)
        return
    if scale not in ("small", "paper"):
        raise StudyError(f'--scale {scale}: "small" and "paper" are possible')
    path = Path(name) if name.endswith(".toml") else folder() / f"{name}.toml"
    if not path.exists():
        raise StudyError(f"there is no benchmark {name}: {', '.join(sorted(found.stem for found in folder().glob('*.toml'))) or 'none'} are in {folder()}")
    options = Options(threads=threads, device=device, homes=homes(data))
    result = conduct(path, scale, options, numbers(seeds) if seeds else None)
    to = out or folder() / "results" / f"{path.stem}-{scale}.json"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    say({**result, "out": str(to)}, as_json, shown(result))
    if not as_json:
        for missed in result["missed"]:
            print(f"MISSED  {missed}")
        print(f"kept in {to}", file=sys.stderr)


def folder() -> Path:
    """benchmarks/ beside the package in a clone, else of the folder one is in."""
    beside = Path(reticent.__path__[0]).parent / "benchmarks"
    return beside if beside.is_dir() else Path("benchmarks")


def described(path: Path) -> Bench:
    text, tree = read_toml(path, StudyError)
    found = checked(Bench, tree, Source(str(path), text, path), StudyError)
    for case in found.case:
        for said in case.target:
            if not claim.fullmatch(said):
                raise StudyError(
                    f'{path}: case {case.name}, target "{said}" is not understood (allowed: accuracy >= 0.96, or accuracy >= combined - 0.005 at host 0)'
                )
    return found


def conduct(path: Path, scale: str, options: Options, seeds: Sequence[int] | None) -> Tree:
    """All runs of all cases, and what they show."""
    wanted, began = described(path), time.monotonic()
    at = wanted.scale.get("paper" if scale == "paper" else "small", Scale())
    heard: dict[str, list[Tree]] = {}  # by case, a result for each host and seed
    for case in wanted.case:
        heard[case.name] = []
        for host, seed in pairs(wanted, at, case, seeds):
            tree = settled(wanted, at, case, host)
            if case.budget_from is not None:
                tree.setdefault("config", {})["byte_budget"] = budget(heard, case, host, seed)
            result = sweeps.conduct(plans.with_seed(meant(tree), seed), Options(**{**vars(options), "compare": case.compare}), None)
            heard[case.name].append({"host": host, **result})
            figures = ", ".join(f"{key} {result['metrics'][key]:.4f}" for key in shown_metrics if key in result["metrics"])
            if screen.is_terminal:
                screen.print(f"{case.name}, host {host}, seed {seed}: {figures}, {result['seconds']['fit']:.1f} s")
    cases = {case.name: summary(case, heard, at.targets) for case in wanted.case}
    missed = [f"{name}: {found['claim']} ({found['said']})" for name, one in cases.items() for found in one["targets"] if not found["met"]]
    said = f" --seeds {','.join(map(str, seeds))}" if seeds else ""
    return {
        "name": path.stem, "title": wanted.title, "source": wanted.source, "note": wanted.note, "scale": scale, "held to targets": at.targets, "commit": commit(),
        "command": f"reticent bench {path.stem} --scale {scale}{said}", "machine": machine(options),
        "seconds": round(time.monotonic() - began, 1), "cases": cases, "missed": missed,
    }  # fmt: skip


def pairs(wanted: Bench, at: Scale, case: Case, seeds: Sequence[int] | None) -> Iterator[tuple[Person | None, int]]:
    """Hosts and seeds of a case: its own, as far as the scale has them, else the scale's, else the file's."""
    every = at.hosts or wanted.hosts
    hosts = (
        case.hosts if case.hosts is not None and (every is None or at.hosts is None) else tuple(h for h in every or () if case.hosts is None or h in case.hosts)
    )
    for host in hosts or case.hosts or (None,):
        for seed in seeds or (at.seeds or case.seeds or wanted.seeds):
            yield host, seed


def settled(wanted: Bench, at: Scale, case: Case, host: Person | None) -> Tree:
    """The study of a case: the base, the case's own over it, and the scale's over both."""
    tree = copy.deepcopy(wanted.base)
    tree.setdefault("study", {}).setdefault("name", case.name)
    if case.data is not None:
        tree["data"] = copy.deepcopy(case.data)
    other = case.set.get("study", {}).get("algorithm")
    if other is not None:  # takes of the base's settings those that it has, as a baseline of --compare does
        tree["config"] = study.fields_shared(algorithms.find(other).Config, tree.get("config", {}))
    put(tree, case.set)
    put(tree, at.set)
    if host is not None:
        tree["data"]["host"] = host
    return tree


def meant(tree: Tree) -> Study:
    """The study of a case; one sentence if it, or its settings, cannot be meant."""
    wanted = study.study_from(tree)
    study.configure(algorithms.find(wanted.study.algorithm).Config, wanted.config, wanted.place("config"))
    return wanted


def put(tree: Tree, over: Mapping[str, Any]) -> None:  # Any: TOML values
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), dict):
            put(tree[key], value)
        else:
            tree[key] = copy.deepcopy(value)


def budget(heard: Mapping[str, Sequence[Tree]], case: Case, host: Person | None, seed: int) -> int:
    """What the same run of another case cost, both ways."""
    for result in heard.get(case.budget_from or "", ()):
        if (result["host"], result["seed"]) == (host, seed):
            return int(sum(result["bytes"]["fit"].values()))
    raise StudyError(f"case {case.name}: budget_from = {case.budget_from!r}, which has no run with host {host} and seed {seed} before it; put that case first")


def summary(case: Case, heard: Mapping[str, Sequence[Tree]], held: bool) -> Tree:
    """Means and spreads over hosts and seeds, of the case and of its baselines; and its targets."""
    results = heard[case.name]
    lines = {case.name: results} | {f"{case.name}/{name}": [{"host": r["host"], **r["compare"][name]} for r in results] for name in case.compare}
    told = {name: line(found) for name, found in lines.items()}
    first = results[0]
    runs = [
        {"host": r["host"], **{key: r[key] for key in ("seed", "metrics", "bytes", "rounds", "seconds", "digest")}, "model": r.get("model", {}).get("name")}
        for r in results
    ]
    targets = [judged(said, case, heard) for said in case.target] if held else []
    beside = {name: told[f"{case.name}/{name}"] for name in case.compare}
    return {
        **told[case.name], "algorithm": first["algorithm"], "config": first["config"], "data": first["data"], "rows": first["rows"],
        "seeds": sorted({r["seed"] for r in results}), "hosts": list(dict.fromkeys(r["host"] for r in results)), "paper": dict(case.paper), "targets": targets,
        "compare": beside, "runs": runs,
    }  # fmt: skip


def line(found: Sequence[Tree]) -> Tree:
    metrics = sweeps.means([r["metrics"] for r in found])
    spread = {key: value for key, value in metrics[1].items() if value == value}  # one run has none
    moved = {way: round(statistics.fmean(r["bytes"]["fit"][way] for r in found)) for way in ("up", "down")}
    seconds = statistics.fmean(r["seconds"]["fit"] for r in found)
    return {
        "metrics": metrics[0],
        "spread": spread,
        "bytes": moved,
        "rounds": statistics.fmean(r["rounds"]["fit"] for r in found),
        "seconds each": round(seconds, 2),
    }


def judged(said: str, case: Case, heard: Mapping[str, Sequence[Tree]]) -> Tree:
    """A target, and what was found: over the runs that both sides have."""
    found = claim.fullmatch(said)
    assert found is not None  # `described` looked
    metric, way, number, other, sign, by, host = found.groups()
    mine = [r for r in heard[case.name] if host is None or r["host"] == int(host)]
    if number is not None:
        pair = [(figure(r, metric), float(number)) for r in mine]
    else:
        theirs = {(r["host"], r["seed"]): r for r in (beside(mine, other) if other in case.compare else heard.get(other, ()))}
        margin = float(by or 0) * (-1 if sign == "-" else 1)
        pair = [(figure(r, metric), figure(theirs[r["host"], r["seed"]], metric) + margin) for r in mine if (r["host"], r["seed"]) in theirs]
    if not pair:
        return {"claim": said, "met": False, "said": f"no run tells: {other or host} was not run with these hosts and seeds", "runs": 0}
    ours, wanted = (statistics.fmean(side) for side in zip(*pair, strict=True))
    met = ours >= wanted if way == ">=" else ours <= wanted
    return {
        "claim": said,
        "met": met,
        "said": f"{ours:.4f}, {'at least' if way == '>=' else 'at most'} {wanted:.4f} was wanted",
        "found": ours,
        "wanted": wanted,
        "runs": len(pair),
    }


def beside(results: Sequence[Tree], name: str) -> list[Tree]:
    return [{"host": r["host"], **r["compare"][name], "seed": r["seed"]} for r in results]


def figure(result: Tree, metric: str) -> float:
    costs = {"seconds": result["seconds"]["fit"], "rounds": result["rounds"]["fit"], "bytes": sum(result["bytes"]["fit"].values())}
    known = {**costs, **result["metrics"]}
    if not isinstance(known.get(metric), int | float):
        raise StudyError(
            f"a target speaks of {metric}, which {result['algorithm']} does not have: {', '.join(sorted(k for k, v in known.items() if isinstance(v, int | float)))}"
        )
    return float(known[metric])


def commit() -> str:
    """Of the clone that the package lies in."""
    done = subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=Path(reticent.__path__[0]), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def machine(options: Options) -> Tree:
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores, "threads": options.threads, "device": options.device, "processor": named[1] if named else platform.processor(),
        "python": platform.python_version(), "torch": torch.__version__,
    }  # fmt: skip


def shown(result: Tree) -> Table:
    lines = {
        name: one
        for case, told in result["cases"].items()
        for name, one in {case: told, **{f"{case}/{key}": found for key, found in told["compare"].items()}}.items()
    }
    metrics = [key for key in shown_metrics if any(key in one["metrics"] for one in lines.values())]
    made = grid("", *metrics, "paper", "rounds", "kB", "seconds", title=f"{result['title']} ({result['source']}), {result['scale']}")
    for name, one in lines.items():
        cells = [
            f"{one['metrics'][key]:.4f}" + (f" ± {one['spread'][key]:.4f}" if key in one["spread"] else "") if key in one["metrics"] else "" for key in metrics
        ]
        theirs = ", ".join(f"{value}" for value in one.get("paper", {}).values())
        made.add_row(name, *cells, theirs, f"{one['rounds']:g}", f"{sum(one['bytes'].values()) / 1000:,.0f}", f"{one['seconds each']:.1f}")
    met = [found for told in result["cases"].values() for found in told["targets"]]
    made.caption = f"{sum(found['met'] for found in met)} of {len(met)} targets met" if met else "no targets at this scale"
    return made
