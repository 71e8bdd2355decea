"""Noise as targets (Bojanowski and Joulin, 2017) as FedOnce's guests use it: Algorithm 1, lines 3-15, with the paper's letters.

x: the guest's rows; C: targets, one a row; P: the permutation that gives each row of a batch its target; theta: the net; eta:
the learning rate. What the paper leaves out is as in the authors' code: targets are N(0, 1) rows on the unit sphere, P is found
in each mini-batch and written back into C, the loss is the batch mean of the squared distance, tables end in tanh. Unlike there,
an epoch's last short batch is used too, and pictures are neither cropped nor flipped.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from reticent.learn.flat import Array
from reticent.learn.nets import Net
from reticent.learn.training import Progress, Schedule, train, train_flat


def targets(rows: int, dim: int, rng: torch.Generator) -> Array:
    """C: one random point of the unit sphere a row."""
    c = torch.randn(rows, dim, generator=rng)
    on_sphere: Array = (c / c.norm(dim=1, keepdim=True).clamp_min(1e-12)).numpy()
    return on_sphere


def assign(z: Array, c: Array) -> NDArray[np.int64]:
    """P: which row of c each row of z gets, so that the sum of squared distances is least.

    |z|^2 and |c|^2 add the same to every permutation, so the cost is -z c'. So does z's mean, which is taken away because
    scipy then needs a third of the time.
    """
    centred = z.mean(0, dtype=np.float64) - z
    columns: NDArray[np.int64] = linear_sum_assignment(centred @ c.T.astype(np.float64))[1]
    return columns


def train_nat(
    net: Net, x: Tensor, schedule: Schedule, frequency: int, rng: torch.Generator, device: torch.device, progress: Progress | None = None
) -> list[float]:
    """Trains `net` in place; returns each epoch's mean loss. P is found in every `frequency`-th epoch (the paper's f)."""
    c = targets(len(x), net.outputs, rng)  # line 3

    def settle(z: Array, rows: NDArray[np.int64], epoch: int) -> Array:
        mine = c.take(rows, 0)
        if (epoch + 1) % frequency == 0:
            mine = mine.take(assign(z, mine), 0)  # line 5
            c[rows] = mine
        return mine

    def slope(z: Array, rows: NDArray[np.int64], epoch: int) -> tuple[Array, float]:
        apart = z - settle(z, rows, epoch)
        value = float(np.vdot(apart, apart))  # line 6
        apart *= 2 / len(z)
        return apart, value  # line 7

    def loss(rows: Tensor, epoch: int) -> Tensor:
        z = net(x[rows])
        mine = settle(z.detach().cpu().numpy(), rows.cpu().numpy(), epoch)
        return (z - torch.from_numpy(mine).to(device)).square().sum(1).mean()  # lines 6-7

    if net.spec["kind"] == "mlp" and device.type == "cpu":
        return train_flat(net, x.numpy(), slope, schedule, rng, progress)  # lines 4-9
    net.to(device).train()
    return train(net.parameters(), loss, len(x), schedule, rng, device, progress)  # lines 4-9
