"""How good raw scores are, in the figures a bank reads. numpy only; a metric that the labels do not define is left out."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import DataError
from reticent.learn.task import Task

Numbers = NDArray[np.float64]


def sigmoid(z: Numbers) -> Numbers:
    chance: Numbers = 0.5 + 0.5 * np.tanh(0.5 * z)
    return chance


def softmax(z: Numbers) -> Numbers:
    e: Numbers = np.exp(z - z.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def midranks(values: Numbers) -> Numbers:
    """Ranks from 1; ties share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts).astype(np.float64)
    ranks: Numbers = (ends - (counts - 1) / 2)[group.reshape(-1)]
    return ranks


def auc(scores: Numbers, y: NDArray[np.bool_]) -> float:
    """The chance that a positive row scores above a negative one; a tie counts half. Both classes must be there."""
    positive, negative = int(y.sum()), int((~y).sum())
    return float((midranks(scores)[y].sum() - positive * (positive + 1) / 2) / (positive * negative))


def auc_interval(scores: Numbers, y: NDArray[np.bool_], z: float = 1.959963984540054) -> tuple[float, float]:
    """The 95 % interval of DeLong, DeLong and Clarke-Pearson (1988), by midranks (Sun and Xu, 2014), cut to [0, 1]."""
    positive, negative = int(y.sum()), int((~y).sum())
    ranks = midranks(scores)
    over_negatives = (ranks[y] - midranks(scores[y])) / negative  # for each positive: the share of negatives below it
    over_positives = 1 - (ranks[~y] - midranks(scores[~y])) / positive
    variance = sum(float(part.var(ddof=1)) / len(part) for part in (over_negatives, over_positives) if len(part) > 1)
    middle, margin = auc(scores, y), z * math.sqrt(variance)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def steps(scores: Numbers, y: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """True and false positives as the threshold falls past each distinct score."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true = np.cumsum(y[order])[last].astype(np.float64)
    return true, last + 1.0 - true


def pr_auc(scores: Numbers, y: NDArray[np.bool_]) -> float:
    """Average precision: each step of recall at the precision it is reached with."""
    true, false = steps(scores, y)
    return float((np.diff(true, prepend=0.0) * true / (true + false)).sum() / true[-1])


def ks(scores: Numbers, y: NDArray[np.bool_]) -> float:
    """Kolmogorov and Smirnov: the largest distance between the score distributions of the two classes."""
    true, false = steps(scores, y)
    return float(np.abs(true / true[-1] - false / false[-1]).max())


def calibration(chance: Numbers, happened: NDArray[np.bool_], bins: int = 10) -> tuple[float, list[dict[str, float | int]]]:
    """Expected calibration error, and its table: by bin of equal width the rows, their mean chance, and how often it happened."""
    place = np.minimum((chance * bins).astype(np.int64), bins - 1)
    table: list[dict[str, float | int]] = []
    error = 0.0
    for i in range(bins):
        here = place == i
        rows = int(here.sum())
        if rows:
            said, seen = float(chance[here].mean()), float(happened[here].mean())
            error += rows / len(chance) * abs(said - seen)
            table.append({"low": i / bins, "high": (i + 1) / bins, "rows": rows, "predicted": said, "observed": seen})
    return error, table


def measure(scores: ArrayLike, y: ArrayLike, task: Task, label_range: tuple[float, float] | None = None) -> dict[str, object]:
    """The metrics of `task` for raw scores. `label_range`: the smallest and largest training label, for rmse_scaled."""
    z, labels = np.asarray(scores, np.float64), np.asarray(y)
    if z.shape != ((len(labels),) if task.flat else (len(labels), task.outputs)):
        raise DataError(f"scores of shape {z.shape} do not fit {len(labels)} {task.kind} labels with {task.outputs} outputs")
    if len(labels) == 0:
        return {}
    if task.kind == "regression":
        return of_numbers(z, labels.astype(np.float64), label_range)
    if task.kind == "binary":
        return of_classes(z, labels > 0.5)
    if task.kind == "multiclass":
        return of_many(z, labels.astype(np.int64))
    each = [of_classes(z[:, i], labels[:, i] > 0.5) for i in range(task.outputs)]
    names = ("accuracy", "majority", "auc", "pr_auc", "log_loss", "calibration_error")
    return {name: float(np.mean([m[name] for m in each if name in m])) for name in names if any(name in m for m in each)}


def of_classes(z: Numbers, y: NDArray[np.bool_]) -> dict[str, Any]:  # Any: numbers, and calibration's table
    error, table = calibration(sigmoid(z), y)
    metrics: dict[str, Any] = {"accuracy": float(((z > 0) == y).mean()), "majority": max(float(y.mean()), float(1 - y.mean()))}
    if y.any() and not y.all():
        metrics |= {"auc": auc(z, y), "auc_interval": list(auc_interval(z, y)), "pr_auc": pr_auc(z, y), "ks": ks(z, y)}
    return metrics | {"log_loss": float((np.logaddexp(0, z) - y * z).mean()), "calibration_error": error, "calibration": table}


def of_many(z: Numbers, y: NDArray[np.int64]) -> dict[str, object]:
    """Classes; AUC is the mean of each class against the rest, over classes that are there. Calibration is the top class's."""
    chance = softmax(z)
    said = z.argmax(1)
    error, table = calibration(chance.max(1), said == y)
    metrics: dict[str, object] = {"accuracy": float((said == y).mean()), "majority": float(np.bincount(y).max() / len(y))}
    there = [auc(chance[:, i], y == i) for i in range(z.shape[1]) if 0 < int((y == i).sum()) < len(y)]
    if there:
        metrics["auc"] = float(np.mean(there))
    top = z.max(1)
    total = top + np.log(np.exp(z - top[:, None]).sum(1))
    return metrics | {"log_loss": float((total - z[np.arange(len(y)), y]).mean()), "calibration_error": error, "calibration": table}


def of_numbers(z: Numbers, y: Numbers, label_range: tuple[float, float] | None) -> dict[str, object]:
    rmse = math.sqrt(float(((z - y) ** 2).mean()))
    metrics: dict[str, object] = {"rmse": rmse}
    around = float(((y - y.mean()) ** 2).sum())
    if around > 0:
        metrics["r2"] = 1 - float(((z - y) ** 2).sum()) / around
    if label_range is not None and label_range[1] > label_range[0]:
        metrics["rmse_scaled"] = rmse / (label_range[1] - label_range[0])
    return metrics
