"""What a host does about guests that are not there: zeros in their place, or a model of those that are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from reticent.learn import models
from reticent.learn.models import Model, ModelConfig
from reticent.learn.scorers import Constant
from reticent.learn.task import Task


def in_place(said: Mapping[str, Tensor], widths: Mapping[str, int], rows: int, device: torch.device) -> list[Tensor]:
    """A table for each guest of `widths`: what it said, or zeros [rows, width] where it said nothing."""
    return [said[name] if name in said else torch.zeros(rows, width, device=device) for name, width in widths.items()]


def refit(own: Tensor, heard: Sequence[Tensor], y: Tensor, task: Task, config: ModelConfig, model: Model, rng: torch.Generator, device: torch.device) -> Model:
    """A model of these guests alone, of the kind that `model` is: what `auto` chose once is not chosen again for each pattern of absence.

    Without any column it says the training rows' base rates, or their mean.
    """
    if not own[:1].numel() and not any(z.shape[1] for z in heard):
        return Model("constant", task, Constant(base(y, task)))
    chosen = config.model if config.model != "auto" or model.name == "constant" else model.name
    return models.fit(own, heard, y, task, replace(config, model=chosen), rng, device)


def base(y: Tensor, task: Task) -> Tensor:
    """Scores [1, outputs] of who knows the labels and no column; a class counts as seen once more than it was, so that no odds are infinite."""
    if task.kind == "regression":
        return y.double().mean().float().reshape(1, 1).cpu()
    if task.kind == "multiclass":
        seen = torch.bincount(y.cpu(), minlength=task.outputs).double() + 1
        return (seen / seen.sum()).log().float()[None]
    seen = y.cpu().double().reshape(len(y), -1).sum(0) + 1
    return (seen / (len(y) + 2 - seen)).log().float()[None]
