"""What the host trains on its own columns and on what it heard: one interface, by name, and safe to write down."""

import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch.nn import functional as F

from reticent.errors import DataError, StudyError
from reticent.learn import nets
from reticent.learn.flat import Array
from reticent.learn.nets import BLOCK, Net
from reticent.learn.scorers import Boosted, Constant, Dense, Scaling, Scorer, check, columns
from reticent.learn.task import Task
from reticent.learn.training import Progress, Schedule, train, train_flat

NAMES = ("auto", "linear", "mlp", "cnn", "gbdt", "paper")
HELD_OUT = 0.2  # the share of the training rows that `auto` validates on
BOOSTED_INPUTS = 2_000  # `auto` leaves gbdt out above so many inputs,
BOOSTED_CELLS = 5e7  # and above so many rows x inputs x boosters: about twenty seconds
PICTURES_ALONE = 10_000  # from so many pictures on `auto` trains cnn alone: validation would double the longest of all fits


@dataclass(frozen=True)
class ModelConfig:
    model: str = "auto"  # auto, linear, mlp, cnn, gbdt, paper, or the host's own nn.Module as "package.module:Class"
    epochs: int | None = None  # passes over the training rows; None, here and below: the model's own, in `own_settings`
    lr: float | None = None  # Adam's rate (mlp, cnn and own modules: the peak of a one-cycle schedule)
    weight_decay: float | None = None  # AdamW's; for paper an L2 term in Adam's gradient
    batch: int | None = None  # rows a step
    hidden: tuple[int, ...] | None = None  # dense layers: all of mlp, the last part of cnn and paper
    dropout: float | None = None  # between dense layers
    class_weight: Literal["none", "balanced"] = "none"  # balanced: each class weighs the same in the loss
    trees: int = 200  # gbdt: boosting rounds (half as many for multiclass)
    tree_rate: float = 0.05  # gbdt: shrinkage
    leaves: int = 31  # gbdt: leaves a tree
    threads: int = 1  # gbdt: more may change the last bits


@dataclass(frozen=True)
class Settings:
    epochs: int
    lr: float
    weight_decay: float
    batch: int
    hidden: tuple[int, ...]
    dropout: float


own_settings = {
    "mlp": Settings(30, 3e-3, 0.1, 100, (64, 64), 0.0),
    "cnn": Settings(10, 3e-3, 1e-2, 256, (256,), 0.4),
    "paper": Settings(40, 1e-3, 1e-4, 100, (30,), 0.0),
    "paper, pictures": Settings(20, 1e-3, 1e-5, 128, (128,), 0.0),
}


def settings(config: ModelConfig, name: str, picture: bool) -> Settings:
    """The model's own settings, with what the study says instead."""
    if name == "paper":
        kind = "paper, pictures" if picture else "paper"
    else:
        kind = "cnn" if picture and name != "mlp" else "mlp"
    said = {key: getattr(config, key) for key in Settings.__dataclass_fields__ if getattr(config, key) is not None}
    return replace(own_settings[kind], **said)


@dataclass
class Model:
    """What `fit` gives. `name` is what was trained, `tried` each candidate's validation loss where `auto` chose."""

    name: str
    task: Task
    scorer: Scorer
    tried: dict[str, float] = field(default_factory=dict)

    def predict(self, own: Tensor | None, heard: Sequence[Tensor]) -> Tensor:
        """Raw scores on the CPU, float32: [n] or [n, outputs], in blocks of 4,096 rows."""
        check(own, heard)
        rows = len(heard[0]) if own is None else len(own)
        blocks = []
        for at in range(0, max(rows, 1), BLOCK):
            here = slice(at, at + BLOCK)
            blocks.append(self.scorer(None if own is None else own[here], [z[here] for z in heard]).cpu())
        scores = torch.cat(blocks)
        return scores[:, 0] if self.task.flat else scores

    def to_arrays(self) -> Mapping[str, object]:
        return {"name": self.name, "task": self.task, "scorer": self.scorer, "tried": self.tried}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["name"], arrays["task"], arrays["scorer"], arrays["tried"])


def fit(
    own: Tensor | None,
    heard: Sequence[Tensor],
    y: Tensor,
    task: Task,
    config: ModelConfig,
    rng: torch.Generator,
    device: torch.device,
    progress: Progress | None = None,
) -> Model:
    """Trains config.model on the host's own columns (a table, pictures, or nothing) and on what it heard (perhaps nothing).

    `progress` hears of nets only, since the other fits take a moment. Only `rng` is drawn from.
    """
    check(own, heard)
    if own is not None and math.prod(own.shape[1:]) == 0:
        own = None
    heard = [z for z in heard if z.shape[1]]
    if own is None and not heard:
        raise DataError("a model needs at least one input column: the host has none, and none was heard")
    rows = len(y)
    if rows == 0 or rows != (len(heard[0]) if own is None else len(own)):
        raise DataError(f"there are {rows} labels for {len(heard[0]) if own is None else len(own)} rows: each training row needs one label")
    check_labels(y, task)
    name = config.model
    if name not in NAMES and ":" not in name and "." not in name:
        raise StudyError(f"model {name!r} is unknown: use one of {', '.join(NAMES)}, or your own nn.Module as package.module:Class")
    settled = constant(y, task)
    if settled is not None:
        return Model("constant", task, Constant(settled))
    if name == "auto":
        return automatic(own, heard, y, task, config, rng, device, progress)
    if name == "linear":
        return Model(name, task, linear(own, heard, y, task, config))
    if name == "gbdt":
        return Model(name, task, boosted(own, heard, y, task, config, rng))
    return Model(name, task, dense(own, heard, y, task, config, name, rng, device, progress))


def check_labels(y: Tensor, task: Task) -> None:
    shape = (len(y), task.outputs) if task.kind == "multilabel" else (len(y),)
    if tuple(y.shape) != shape:
        raise DataError(f"{task.kind} labels have shape {tuple(y.shape)}: {shape} was expected")
    if not bool(y.isfinite().all()):
        raise DataError(f"{int((~y.isfinite()).sum())} labels are missing or infinite: leave those rows out of training")
    if task.kind == "multiclass" and (int(y.min()) < 0 or int(y.max()) >= task.outputs):
        raise DataError(f"class numbers run from {int(y.min())} to {int(y.max())}: with {task.outputs} classes they must lie in 0 to {task.outputs - 1}")
    if task.kind in ("binary", "multilabel") and bool(((y != 0) & (y != 1)).any()):
        raise DataError(f"a {task.kind} label is 0 or 1; found {float(y[(y != 0) & (y != 1)][0])}")


def constant(y: Tensor, task: Task) -> Tensor | None:
    """The scores [1, outputs] that fit best where all rows have one label; None where they differ."""
    if bool((y != y[:1]).any()):
        return None
    sure = math.log(len(y) + 1)  # the odds of Laplace's rule of succession
    if task.kind == "regression":
        return y[:1].float().reshape(1, 1).cpu()
    warnings.warn(f"all {len(y)} training rows have the same label ({y[0].tolist()}): the model says so for every row", stacklevel=3)
    if task.kind == "multiclass":
        return F.one_hot(y[:1].cpu(), task.outputs).float() * sure
    return ((y[:1].float() * 2 - 1) * sure).reshape(1, -1).cpu()


def row_weights(y: Tensor, task: Task, config: ModelConfig) -> Tensor:
    """[n, 1] or [n, labels]: 1, or such that each class of a label weighs the same."""
    if config.class_weight == "none" or task.kind == "regression":
        return torch.ones(len(y), 1)
    if task.kind == "multiclass":
        counts = torch.bincount(y.cpu(), minlength=task.outputs).float()
        return (len(y) / (int((counts > 0).sum()) * counts))[y.cpu()][:, None]
    y = y.cpu().float().reshape(len(y), -1)
    share = y.mean(0)
    return torch.where(y > 0, 0.5 / share.clamp_min(0.5 / len(y)), 0.5 / (1 - share).clamp_min(0.5 / len(y)))


def wanted(y: Tensor, task: Task) -> Tensor:
    """Labels as [n, outputs] float32: 0/1, one-hot, or the number."""
    return F.one_hot(y, task.outputs).float() if task.kind == "multiclass" else y.float().reshape(len(y), -1)


def linear(own: Tensor | None, heard: Sequence[Tensor], y: Tensor, task: Task, config: ModelConfig) -> Dense:
    """Ridge, logistic or softmax regression on standardised columns, with a penalty of |w|^2 / 2 against the summed loss."""
    x = columns(own, heard, 0).cpu()
    scaling = Scaling.of(x)
    x64 = scaling(x).double().numpy()
    t, weight = wanted(y.cpu(), task).double().numpy(), row_weights(y, task, config).double().numpy()
    rows, inputs = x64.shape
    outputs = task.outputs
    if task.kind == "regression":
        middle = t.mean(0)
        w = np.linalg.solve(x64.T @ x64 + np.eye(inputs), x64.T @ (t - middle))
        bias = middle - x64.mean(0) @ w
    else:

        def objective(v: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            w, b = v[:-outputs].reshape(inputs, outputs), v[-outputs:]
            z = x64 @ w + b
            loss, slope = (softmax_loss if task.kind == "multiclass" else sigmoid_loss)(z, t)
            slope *= weight
            value = float((loss * weight).sum() + 0.5 * (w * w).sum()) / rows
            return value, np.concatenate([(x64.T @ slope + w).ravel(), slope.sum(0)]) / rows

        best = minimize(objective, np.zeros((inputs + 1) * outputs), jac=True, method="L-BFGS-B", options={"maxiter": 300, "gtol": 1e-6}).x
        w, bias = best[:-outputs].reshape(inputs, outputs), best[-outputs:]
    head = Net({"kind": "mlp", "inputs": inputs, "hidden": [], "outputs": outputs, "final": "linear", "dropout": 0.0}, None)
    head.load_state_dict({"layers.0.weight": torch.from_numpy(w.T.copy()).float(), "layers.0.bias": torch.from_numpy(np.array(bias)).float()})
    return Dense(None, scaling, head)


def sigmoid_loss(z: NDArray[Any], t: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:  # Any: float32 or float64
    """Cross entropy of each output, and its derivative by z."""
    return np.logaddexp(0, z) - t * z, 0.5 * np.tanh(0.5 * z) + (0.5 - t)


def softmax_loss(z: NDArray[Any], t: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:  # Any: float32 or float64
    """Cross entropy of each row [n, 1], and its derivative by z."""
    z = z - z.max(1, keepdims=True)
    e = np.exp(z)
    total = e.sum(1, keepdims=True)
    return np.log(total) - (z * t).sum(1, keepdims=True), e / total - t


def square_loss(z: NDArray[Any], t: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:  # Any: float32 or float64
    apart = z - t
    return apart * apart, 2 * apart


def dense(
    own: Tensor | None,
    heard: Sequence[Tensor],
    y: Tensor,
    task: Task,
    config: ModelConfig,
    name: str,
    rng: torch.Generator,
    device: torch.device,
    progress: Progress | None,
) -> Dense:
    """mlp, cnn, paper and own modules: what they are made of, and their training. Without pictures cnn is mlp."""
    shape = tuple(own.shape[1:]) if own is not None and own.dim() == 4 else None
    chosen = settings(config, name, shape is not None)
    x = None if own is None else own.to(device=device, dtype=torch.float32)
    told = [z.to(device=device, dtype=torch.float32) for z in heard]
    local: Net | None = None
    if name == "paper" and x is not None:  # notes 1.9: down to as many numbers as a guest sends, before the guests' raw ones
        d = heard[0].shape[1] if heard else (16 if shape else 3)
        local = nets.cnn0(shape[0], shape[1], shape[2], d, rng) if shape else nets.mlp(x.shape[1], (30, 30), d, rng)
    elif name == "cnn" and shape:
        local = nets.features(shape[0], shape[1], shape[2], rng)
    elif name not in NAMES and shape:
        local = nets.own(name, (shape[0], shape[1], shape[2]), 128, rng)
    rest = columns(None if local else x, told, len(y)).to(device)
    scaling = None if name == "paper" else Scaling.of(rest)
    inputs = rest.shape[1] + (local.outputs if local else 0)
    if name not in NAMES and not shape:
        head = nets.own(name, inputs, task.outputs, rng)
    else:
        head = nets.mlp(inputs, chosen.hidden, task.outputs, rng, dropout=chosen.dropout)
    made = Dense(local, scaling, head)
    t = wanted(y.cpu(), task)
    if task.kind == "regression":
        made.squash = name == "paper"
        made.low = float(t.min() if made.squash else t.mean())
        made.width = float(t.max() - t.min() if made.squash else t.double().std(correction=0))
        t = (t - made.low) / made.width
    schedule = Schedule(chosen.epochs, chosen.batch, chosen.lr, chosen.weight_decay, decoupled=name != "paper", one_cycle=name != "paper")
    weight = row_weights(y, task, config)
    if scaling:
        rest = scaling(rest)
    if local is None and head.spec["kind"] == "mlp" and device.type == "cpu" and not made.squash:
        train_flat(head, rest.numpy(), slopes(task, t.numpy(), weight.numpy()), schedule, rng, progress)
        return made
    for net in (local, head):
        if net:
            net.to(device)
    train_dense(made, x, rest, task, t.to(device), weight.to(device), schedule, rng, device, progress)
    return made


def slopes(task: Task, t: Array, weight: Array) -> Callable[[Array, NDArray[np.int64], int], tuple[Array, float]]:
    """dLoss/dScores of a batch for `train_flat`, with the batch's summed loss."""
    formula = {"multiclass": softmax_loss, "regression": square_loss}.get(task.kind, sigmoid_loss)
    weighted = bool((weight != 1).any())

    def slope(z: Array, rows: NDArray[np.int64], epoch: int) -> tuple[Array, float]:
        loss, delta = formula(z, t.take(rows, 0))
        if weighted:
            here = weight.take(rows, 0)
            loss, delta = loss * here, delta * here
        delta *= np.float32(1 / len(z))
        return delta, float(loss.sum())

    return slope


def train_dense(
    made: Dense,
    own: Tensor | None,
    rest: Tensor,
    task: Task,
    t: Tensor,
    weight: Tensor,
    schedule: Schedule,
    rng: torch.Generator,
    device: torch.device,
    progress: Progress | None,
) -> None:
    def loss(rows: Tensor, epoch: int) -> Tensor:
        z = made.forward(None if own is None or made.local is None else own[rows], rest[rows])
        if task.kind == "multiclass":
            each = -(z.log_softmax(1) * t[rows]).sum(1, keepdim=True)
        elif task.kind == "regression":
            each = ((z.sigmoid() if made.squash else z) - t[rows]).square()
        else:
            each = F.binary_cross_entropy_with_logits(z, t[rows], reduction="none")
        return (each * weight[rows]).sum() / len(rows)

    made.train(True)
    parameters = [p for net in (made.local, made.head) if net for p in net.parameters()]
    train(parameters, loss, len(rest), schedule, rng, device, progress)
    made.train(False)


def boosted(own: Tensor | None, heard: Sequence[Tensor], y: Tensor, task: Task, config: ModelConfig, rng: torch.Generator) -> Boosted:
    """LightGBM with fixed seeds; small tables may have small leaves (a twentieth of the rows, 20 at most)."""
    lightgbm: Any = importlib.import_module("lightgbm")  # Any: untyped
    x = columns(own, heard, 0).cpu().numpy()
    rows = len(x)
    parameters = {
        "objective": {"multiclass": "multiclass", "regression": "regression"}.get(task.kind, "binary"),
        "learning_rate": config.tree_rate, "num_leaves": config.leaves, "bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.8,
        "min_data_in_leaf": max(1, min(20, rows // 20)), "feature_pre_filter": False,
        "deterministic": True, "force_row_wise": True, "num_threads": config.threads, "seed": nets.seed(rng), "verbosity": -1,
    }  # fmt: skip
    if task.kind == "multiclass":
        parameters["num_class"] = task.outputs
    trees = max(1, config.trees // 2) if task.kind == "multiclass" else config.trees
    weights = row_weights(y, task, config).numpy()
    labels = y.cpu().numpy().reshape(rows, -1)
    texts: list[str | float] = []
    for i in range(labels.shape[1]):
        label = np.ascontiguousarray(labels[:, i])  # LightGBM warns of slices
        if (label == label[0]).all():
            texts.append(math.log(rows + 1) * (1.0 if label[0] else -1.0))
            continue
        table = lightgbm.Dataset(x, label, weight=weights[:, min(i, weights.shape[1] - 1)], params=parameters)
        texts.append(lightgbm.train(parameters, table, num_boost_round=trees).model_to_string())
    return Boosted(texts, config.threads)


def candidates(own: Tensor | None, heard: Sequence[Tensor], task: Task, config: ModelConfig) -> list[str]:
    """What `auto` tries. Pictures: cnn, from 10,000 rows on alone. gbdt only up to 2,000 inputs and 5e7 cells of boosting."""
    picture = own is not None and own.dim() == 4
    parts = [*heard] if own is None else [own, *heard]
    rows, inputs = len(parts[0]), sum(math.prod(part.shape[1:]) for part in parts)
    if picture and rows >= PICTURES_ALONE:
        return ["cnn"]
    quick = inputs <= BOOSTED_INPUTS and rows * inputs * task.outputs <= BOOSTED_CELLS
    return [*(["cnn"] if picture else []), "linear", "mlp", *(["gbdt"] if quick else [])]


def held_out(y: Tensor, task: Task, rng: torch.Generator) -> Tensor:
    """A mask of a fifth of the rows, of each class alike; a class of fewer than five rows stays in training."""
    groups = y.cpu().long() if task.kind in ("binary", "multiclass") else torch.zeros(len(y), dtype=torch.long)
    mask = torch.zeros(len(y), dtype=torch.bool)
    for value in range(int(groups.max()) + 1):
        of_class = (groups == value).nonzero()[:, 0]
        order = of_class[torch.randperm(len(of_class), generator=rng)]
        mask[order[: int(HELD_OUT * len(order))]] = True
    return mask


def loss_of(scores: Tensor, y: Tensor, task: Task) -> float:
    """Log loss, or mean squared error: what candidates are compared by."""
    z = scores.double().reshape(len(scores), -1).numpy()
    formula = {"multiclass": softmax_loss, "regression": square_loss}.get(task.kind, sigmoid_loss)
    return float(formula(z, wanted(y.cpu(), task).double().numpy())[0].mean())


def automatic(
    own: Tensor | None,
    heard: Sequence[Tensor],
    y: Tensor,
    task: Task,
    config: ModelConfig,
    rng: torch.Generator,
    device: torch.device,
    progress: Progress | None,
) -> Model:
    """Fits each candidate on four fifths of the training rows, compares them on the rest, and fits the best on all rows."""
    names = candidates(own, heard, task, config)
    seeds = {name: nets.seed(rng) for name in names}
    mask = held_out(y, task, rng)
    tried: dict[str, float] = {}
    if not bool(mask.any()):  # a handful of rows: nothing to choose by
        names = ["linear"]
        seeds.setdefault("linear", nets.seed(rng))

    def trained(name: str, rows: Tensor | None) -> Model:
        inputs = (own, heard, y) if rows is None else (None if own is None else own[rows], [z[rows] for z in heard], y[rows])
        again = torch.Generator().manual_seed(seeds[name])
        return fit(*inputs, task, replace(config, model=name), again, device, progress)

    if len(names) > 1:
        for name in names:
            scores = trained(name, ~mask).predict(None if own is None else own[mask], [z[mask] for z in heard])
            tried[name] = loss_of(scores, y[mask], task)
        names = [min(tried, key=lambda name: tried[name])]
    model = trained(names[0], None)
    model.tried = tried
    return model
