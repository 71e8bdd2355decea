"""Guests gone at prediction: AUC of the host handed zeros, of the host refitted, and of a run that never had them. Prints one JSON object.

    OMP_NUM_THREADS=1 RETICENT_DATA=… python benchmarks/absent.py [--seeds 0-2] [--choices 3] [--sets credit,phishing]

default_credit as in the demo (a bank and three guests, d = 3) and phishing among ten parties (d = 3), 80/20, gradient boosting, PCA of normal
scores. For each seed and each number of guests gone, `choices` random sets of guests (all sets, where there are no more) refuse to predict by
their own policy; figures are means over sets and seeds. `apart` is the largest distance of any refit from the run that never had its guests,
`seconds` what the first prediction for a pattern takes with its refit, `worth` is `reticent worth` on the first seed.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from reticent import plan as plans
from reticent import run as runs
from reticent import worth
from reticent.party import Policy, generator
from reticent.run import Options, Run
from reticent.study import study_from

workloads: dict[str, tuple[dict[str, object], tuple[int, ...]]] = {  # [data], and how many guests go
    "credit": ({"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "host": 0, "test": 0.2}, (0, 1, 2, 3)),
    "phishing": ({"set": "phishing", "split": "equal", "parties": 10, "host": 0, "test": 0.2}, (0, 1, 2, 4, 6, 8)),
}
TARGETS = {("credit", 1): 0.015, ("phishing", 4): 0.03, ("phishing", 8): 0.06}  # of the issue: refit less zeros, at least


def trained(data: Mapping[str, object], seed: int, algorithm: str = "fedonce", **config: object) -> Run:
    wanted = study_from(
        {
            "study": {"name": "absent", "algorithm": algorithm, "task": "classification", "seed": seed},
            "data": dict(data),
            "config": {**({"dim": 3} if algorithm == "fedonce" else {}), "model": "gbdt", **config},
        }
    )
    run = runs.begin(plans.make(wanted, homes=[Path(os.environ.get("RETICENT_DATA", "."))]), Options())
    run.execute()
    return run


def auc(run: Run, gone: Sequence[str]) -> tuple[float, float]:
    """AUC on the test rows while these guests refuse to predict, and the seconds it took."""
    for name, door in run.doors.items():
        door.party.policy = Policy(verbs=("learn",) if name in gone else None)
    deal, began = run.plan.deal, time.perf_counter()
    scores = run.scores(deal.test)
    return worth.measured(scores, deal.labels.y[deal.test], deal.labels.task), time.perf_counter() - began


def chosen(guests: Sequence[str], gone: int, choices: int, seed: int) -> list[tuple[str, ...]]:
    """All sets of so many guests, or some of them at random."""
    every = list(itertools.combinations(guests, gone))
    order = torch.randperm(len(every), generator=generator(seed, "gone", gone))[:choices]
    return [every[int(i)] for i in order]


def curve(name: str, seeds: Sequence[int], choices: int) -> dict[str, Any]:  # Any: JSON
    data, counts = workloads[name]
    found: dict[int, list[tuple[float, float, float, float]]] = {count: [] for count in counts}
    valued: dict[str, Any] = {}  # Any: JSON
    for seed in seeds:
        refitted, zeroed = trained(data, seed, quorum=1), trained(data, seed, quorum=1, absent="zeros")
        tables, host = refitted.plan.deal.tables, refitted.plan.host
        if seed == seeds[0]:
            valued = worth.of_run(refitted)
        for count in counts:
            for gone in chosen(refitted.plan.guests, count, choices, seed):
                rest = [tables[host].names, *(tables[guest].names for guest in refitted.plan.guests if guest not in gone)]
                never = trained({**without(data), "columns": rest}, seed) if len(rest) > 1 else trained(data, seed, algorithm="solo")
                again, seconds = auc(refitted, gone)
                zeros, _ = auc(zeroed, gone)
                found[count].append((zeros, again, never.metrics["auc"], seconds))
                never.abandon()
        refitted.abandon()
        zeroed.abandon()
    lines = {}
    for count, cases in found.items():
        zeros, again, baseline, took = (statistics.fmean(column) for column in zip(*cases, strict=True))
        apart = max(abs(case[1] - case[2]) for case in cases)
        line = {"zeros": round(zeros, 4), "refit": round(again, 4), "never": round(baseline, 4), "gain": round(again - zeros, 4), "apart": round(apart, 5), "seconds": round(took, 2), "cases": len(cases)}  # fmt: skip
        lines[f"{count} gone"] = line | ({"target": TARGETS[name, count]} if (name, count) in TARGETS else {})
    return {"absent": lines, "worth": valued}


def without(data: Mapping[str, object]) -> dict[str, object]:
    """[data] whose columns are named: who holds which is said by lists."""
    return {**{key: value for key, value in data.items() if key not in ("parties", "columns")}, "split": "columns"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", default="0-2")
    options.add_argument("--choices", type=int, default=3)
    options.add_argument("--sets", default="credit,phishing")
    asked = options.parse_args()
    first, _, last = str(asked.seeds).partition("-")
    runs.use_threads(1)
    print(json.dumps({name: curve(name, range(int(first), int(last or first) + 1), asked.choices) for name in asked.sets.split(",")}, indent=1))


if __name__ == "__main__":
    main()
