"""What came of a run: the JSON of its figures, and what raw scores say."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reticent import study
from reticent.data.labels import Labels
from reticent.errors import StudyError
from reticent.learn import metrics
from reticent.ledger import Ledger
from reticent.plan import Plan
from reticent.privacy import statement


def outcome(plan: Plan, ledger: Ledger, scores: Tensor, seconds: Mapping[str, float], alone: bool) -> dict[str, Any]:
    """The JSON of a run."""
    deal = plan.deal
    y = deal.labels.y[deal.test]
    spread: tuple[float, float] | None = None
    if deal.labels.task.kind == "regression":
        learnt = deal.labels.y[deal.train]
        spread = (float(learnt.min()), float(learnt.max()))
    simulated = bool(getattr(plan.algorithm.Host, "simulated", False))
    guests = () if alone else plan.guests
    return {
        "algorithm": plan.study.study.algorithm if isinstance(plan.study.study.algorithm, str) else "", "task": plan.study.study.task, "parties": [plan.host, *plan.guests],
        "seed": plan.study.study.seed, "rows": rows_of(plan),
        "data": {"set": deal.set_name or None, "sha256": deal.sha256 or None, "complete": deal.complete},
        "metrics": metrics.measure(scores.numpy(), y.numpy(), deal.labels.task, spread),
        "rounds": {phase: ledger.rounds(phase) for phase in ("meet", "fit", "predict")}, "letters": {phase: ledger.letters(phase) for phase in ("fit", "predict")},
        "bytes": {**{phase: {way: ledger.bytes(way, phase) for way in ("up", "down")} for phase in ("meet", "fit", "predict", "search")}, "again": ledger.again()},
        "seconds": dict(seconds), "privacy": statement.of_run(ledger, plan.host, guests, plan.looked, simulated), "simulated": simulated,
        "digest": digest(scores), "study": plan.hash, "config": study.plain_config(plan.config), "versions": versions(),
    }  # fmt: skip


def rows_of(plan: Plan) -> dict[str, int]:
    deal = plan.deal
    counted = {"train": int(deal.train.sum()), "test": int(deal.test.sum())}
    if deal.labels.known is not None:
        counted["unlabelled"] = int((~deal.labels.known).sum())
    return counted


def digest(scores: Tensor) -> str:
    """SHA-256 of the raw scores: little-endian float32, C order."""
    return hashlib.sha256(scores.detach().cpu().contiguous().numpy().astype("<f4").tobytes()).hexdigest()


def chances(scores: Tensor, kind: str) -> Tensor:
    if kind == "multiclass":
        return scores.softmax(1)
    if kind == "multilabel":
        return scores.sigmoid()
    if kind == "regression":
        raise StudyError("a regression has no chances: use predict")
    return torch.stack([1 - scores.sigmoid(), scores.sigmoid()], 1)


def decided(scores: Tensor, labels: Labels) -> NDArray[Any]:  # Any: texts or numbers, as the label has them
    """What raw scores say, in the label's own words."""
    kind = labels.task.kind
    if kind == "regression":
        numbers: NDArray[Any] = scores.numpy()
        return numbers
    if kind == "multilabel":
        return (scores > 0).numpy().astype(np.int64)
    which = scores.argmax(1) if kind == "multiclass" else (scores > 0).long()
    classes = labels.classes or tuple(range(max(labels.task.outputs, 2)))
    said: NDArray[Any] = np.asarray(classes)[which.clamp_max(len(classes) - 1).numpy()]
    return said


def versions() -> dict[str, str]:
    """Of what computes and what reads; a package that is not installed is left out."""
    found = {"Python": platform.python_version(), "PyTorch": torch.__version__}
    for name, package in (("Reticent", "reticent"), ("NumPy", "numpy"), ("LightGBM", "lightgbm"), ("Polars", "polars"), ("safetensors", "safetensors")):
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))
