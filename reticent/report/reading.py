"""What a run's folder says, read without changing a byte of it."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from reticent import algorithms, state, study, sweeps
from reticent import plan as plans
from reticent import run as runs
from reticent.data.labels import Labels
from reticent.errors import JournalError, ReticentError
from reticent.learn.task import Task
from reticent.ledger import chain
from reticent.party import verbs_of
from reticent.run import Options

Json = dict[str, Any]  # Any: JSON


@dataclass(frozen=True)
class Spoken:
    """A verb: what is asked, what is answered, what each reveals, and how often it was."""

    verb: str
    question: str
    asks: str
    answer: str
    reveals: str
    bare: bool  # the answer carries a tensor that nobody noised
    letters: int
    down: int
    up: int


@dataclass(frozen=True)
class Facts:
    """All that the page is made of. `first` is the run that pictures and ledger are of: the only one, or the first of several."""

    folder: Path
    home: Path
    result: Json
    first: Json
    options: Options
    study: str
    lines: list[Json]
    broken: str  # where the ledger's chain breaks; "" if it holds
    agreement: str  # what the guests' own ledgers say beside the host's
    verbs: list[Spoken]
    progress: Mapping[str, list[Json]]  # by method
    scores: Mapping[str, Tensor]  # by method, on the test rows
    labels: Tensor | None
    task: Task | None
    unlabelled: str  # why there are no labels
    command: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def methods(self) -> dict[str, Json]:
        return methods(self.result)

    @property
    def name(self) -> str:
        return str(self.first["algorithm"] or "this algorithm")

    @property
    def title(self) -> str:
        return str(tomllib.loads(self.study)["study"]["name"])

    @property
    def began(self) -> float | None:
        return self.lines[0].get("at") if self.lines else None


def methods(result: Json) -> dict[str, Json]:
    return {result["algorithm"] or "this algorithm": result, **result.get("compare", {})}


def read(folder: Path, labels: Labels | None = None) -> Facts:
    result, home = outcome(folder)
    found = runs.noted(home)
    first, options = found["result"], runs.options_of(found)
    lines, broken = ledger(home / "ledger.jsonl")
    places = {first["algorithm"] or "this algorithm": home, **{name: home / "compare" / name for name in first.get("compare", {})}}
    y, task, unlabelled = (labels.y, labels.task, "") if labels else truth(home, options, first)
    return Facts(
        folder=folder, home=home, result=result, first=first, options=options, study=(home / "study.toml").read_text(), lines=lines, broken=broken,
        agreement=agreement(home, lines), verbs=spoken(str(first["algorithm"]), lines), progress={name: told(place) for name, place in places.items()},
        scores={name: state.load(place / "scores") for name, place in places.items() if (place / "scores").exists()}, labels=y, task=task, unlabelled=unlabelled,
        command=command(first, options), versions=first["versions"],
    )  # fmt: skip


def outcome(folder: Path) -> tuple[Json, Path]:
    """The result, and the folder of its first run: of several runs their means."""
    homes = sorted((path.parent for path in folder.glob("*/run.json")), key=lambda path: [int(word) if word.isdigit() else -1 for word in path.name.split("-")])
    if (folder / "run.json").exists():
        found = done(folder)
        return dict(found["result"]), homes[0] if found.get("sweep") and homes else folder
    if not homes:
        raise JournalError(f"{folder} holds no run: there is no run.json in it")
    return sweeps.together([done(home)["result"] for home in homes], folder), homes[0]


def done(folder: Path) -> Json:
    found = runs.noted(folder)
    if found["state"] != "done":
        raise JournalError(f"{folder} holds a run that is not finished: `reticent resume {folder}` goes on with it")
    return found


def ledger(path: Path) -> tuple[list[Json], str]:
    """The lines, and where their chain breaks. What follows a break is shown, and vouched for by nothing."""
    lines: list[Json] = []
    head, broken = "0" * 64, ""
    for number, text in enumerate(path.read_text(errors="replace").splitlines() if path.exists() else (), 1):
        try:
            entry = json.loads(text)
            said = entry.pop("hash")
            lines.append(entry)
        except (ValueError, KeyError, AttributeError, TypeError):
            broken = broken or f"line {number} is no ledger line"
            continue
        fits = chain(head, entry)
        if fits != said and not broken:
            broken = f"line {number} or one before it was changed: it says {str(said)[:12]}…, and {fits[:12]}… would fit"
        head = said
    return lines, broken


def agreement(home: Path, lines: list[Json]) -> str:
    """Compares the host's ledger with those that the guests kept, where they lie here."""
    kept = {path.parent.name: {(line.get("way"), line.get("sha256")) for line in ledger(path)[0]} for path in sorted(home.glob("parties/*/ledger.jsonl"))}
    heard: dict[str, set[tuple[Any, Any]]] = {}  # Any: JSON
    for line in lines:
        heard.setdefault(line["from"] if line["way"] == "up" else line["to"], set()).add((line["way"], line["sha256"]))
    kept = {name: letters for name, letters in kept.items() if name in heard}
    if not kept:
        return ""
    differing = [name for name, letters in kept.items() if letters != heard[name]]
    if differing:
        return f"The host's ledger and that of {', '.join(differing)} do not name the same letters."
    if len(kept) == 1:
        return "The guest keeps a ledger of its own; it names the same letters, hash for hash."
    return f"The {len(kept)} guests keep ledgers of their own; they name the same letters, hash for hash."


def spoken(name: str, lines: list[Json]) -> list[Spoken]:
    """Every verb of the algorithm, also those that were not asked; of an algorithm that is not here, those of the ledger."""
    counted: dict[str, Json] = {}
    for line in lines:
        tally = counted.setdefault(line["verb"], {"up": 0, "down": 0, "letters": 0, "asks": "", "reveals": "", "bare": False})
        tally[line["way"]] += line["bytes"]
        tally["letters"] += line["way"] == "up"
        tally["asks" if line["way"] == "down" else "reveals"] = line["reveals"]
        tally["bare"] |= line["way"] == "up" and line["bare"]
    found: list[Spoken] = []
    try:
        verbs = list(verbs_of(algorithms.find(name).Guest)) if name else []
    except ReticentError:
        verbs = []
    for verb in verbs:
        tally = counted.pop(verb.name, {"up": 0, "down": 0, "letters": 0})
        found.append(
            Spoken(
                verb.name,
                verb.question.__name__,
                verb.question.reveals(),
                verb.answer.__name__,
                verb.reveals,
                verb.answer.unnoised(),
                tally["letters"],
                tally["down"],
                tally["up"],
            )
        )
    found += [Spoken(verb, "", t["asks"], "", t["reveals"], t["bare"], t["letters"], t["down"], t["up"]) for verb, t in counted.items()]
    return found


def told(home: Path) -> list[Json]:
    path = home / "progress.json"
    try:
        return list(json.loads(path.read_text())) if path.exists() else []
    except ValueError:
        return []


def truth(home: Path, options: Options, result: Json) -> tuple[Tensor | None, Task | None, str]:
    """The labels of the test rows, from the tables that the run read; or a sentence that says why not."""
    try:
        files = {file.name: file for file in map(study.read_party, map(Path, options.parties))}
        plan = plans.make(study.read_study(home / "study.toml"), homes=[Path(home) for home in options.homes], files=files, fold=options.fold)
    except (ReticentError, OSError) as error:
        return None, None, f"The tables that this run read are not here any more, so pictures that need test labels are left out ({error})."
    y = plan.deal.labels.y[plan.deal.test]
    if plan.hash != result["study"] or len(y) != result["rows"]["test"]:
        return None, None, "The tables are not what they were when this ran, so pictures that need test labels are left out."
    return y, plan.deal.labels.task, ""


def command(result: Json, options: Options) -> str:
    """What to type to get the same result; file names only, since folders are this machine's own."""
    parts = ["reticent", "run", "study.toml", *(part for path in options.parties for part in ("--parties", Path(path).name))]
    parts += ["--wire", options.wire, "--threads", str(options.threads)]
    if options.device != "cpu":
        parts += ["--device", options.device]
    if options.compare:
        parts += ["--compare", ",".join(options.compare)]
    return shlex.join(parts)
