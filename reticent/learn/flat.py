"""A multilayer perceptron whose parameters are one vector, with forward, backward and Adam written by hand.

A step of a net this small costs autograd ten times its arithmetic, so tables train here (numpy, CPU) and everything else by
autograd. Each layer is one matrix whose last row is the bias; activations carry a last column of ones, so that one product
gives weights and bias their gradients at once.
"""

import math
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from reticent.learn.nets import Net

Array = NDArray[np.float32]


def with_ones(x: Array) -> Array:
    """x with a last column of ones, for the biases."""
    return np.concatenate([x, np.ones((len(x), 1), np.float32)], 1)


class Flat:
    """Trains `net` (of kind mlp) on batches of at most `batch` rows; `write_back` puts the numbers into it."""

    def __init__(self, net: Net, batch: int, weight_decay: float, decoupled: bool) -> None:
        spec = net.spec
        self.net, self.weight_decay, self.decoupled = net, weight_decay, decoupled
        self.tanh, self.dropout = spec["final"] == "tanh", float(spec["dropout"])
        self.linears = [layer for layer in net.layers if isinstance(layer, torch.nn.Linear)]
        sizes = [spec["inputs"], *spec["hidden"], spec["outputs"]]
        shapes = [(before + 1, after) for before, after in pairwise(sizes)]
        total = sum(rows * columns for rows, columns in shapes)
        self.parameters, self.gradient, self.first, self.second, self.scratch, self.change = (np.zeros(total, np.float32) for _ in range(6))
        self.weights, self.gradients = [], []
        at = 0
        for (rows, columns), layer in zip(shapes, self.linears, strict=True):
            place = slice(at, at + rows * columns)
            self.weights.append(self.parameters[place].reshape(rows, columns))
            self.gradients.append(self.gradient[place].reshape(rows, columns))
            self.weights[-1][:-1] = layer.weight.detach().numpy().T
            self.weights[-1][-1] = layer.bias.detach().numpy()
            at += rows * columns
        self.hidden = [np.ones((batch, size + 1), np.float32) for size in sizes[1:-1]]
        self.before = [np.empty((batch, size), np.float32) for size in sizes[1:]]
        self.masks = [np.empty((batch, size), np.float32) for size in sizes[1:-1]]
        self.deltas = [np.empty((batch, size), np.float32) for size in sizes[1:-1]]
        self.steps = 0

    def forward(self, x: Array) -> Array:
        """Outputs for a batch that came through `with_ones`; valid until the next call."""
        n, self.x = len(x), x
        for i, weight in enumerate(self.weights[:-1]):
            z = np.matmul(x, weight, out=self.before[i][:n])
            x = self.hidden[i][:n]
            np.maximum(z, 0, out=x[:, :-1])
            if self.dropout:
                mask = self.masks[i][:n]
                torch.from_numpy(mask).uniform_(generator=self.net.rng)  # a third of bernoulli_'s time
                np.less(mask, 1 - self.dropout, out=mask)
                mask /= 1 - self.dropout
                x[:, :-1] *= mask
        z = np.matmul(x, self.weights[-1], out=self.before[-1][:n])
        return np.tanh(z, out=z) if self.tanh else z

    def backward(self, delta: Array) -> None:
        """Fills `gradient` from dLoss/dOutputs of the last batch."""
        n = len(delta)
        if self.tanh:
            z = self.before[-1][:n]
            delta = delta * (1 - z * z)
        for i in range(len(self.weights) - 1, 0, -1):
            kept = self.hidden[i - 1][:n]
            np.matmul(kept.T, delta, out=self.gradients[i])
            delta = np.matmul(delta, self.weights[i][:-1].T, out=self.deltas[i - 1][:n])
            z = self.before[i - 1][:n]
            delta *= np.greater(z, 0, out=z)  # ReLU's derivative, written over what it was computed from
            if self.dropout:
                delta *= self.masks[i - 1][:n]
        np.matmul(self.x.T, delta, out=self.gradients[0])

    def step(self, rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        """One step of Adam (L2 in the gradient) or AdamW. The moments are kept undivided by 1 - beta: two passes fewer."""
        self.steps += 1
        g, m, v, scratch = self.gradient, self.first, self.second, self.scratch
        if self.weight_decay and self.decoupled:
            self.parameters *= 1 - rate * self.weight_decay
        elif self.weight_decay:
            g += np.multiply(self.parameters, self.weight_decay, out=scratch)
        m *= beta1
        m += g
        v *= beta2
        v += np.multiply(g, g, out=scratch)
        root = math.sqrt((1 - beta2) / (1 - beta2**self.steps))
        np.sqrt(v, out=scratch)
        scratch += epsilon / root
        np.divide(m, scratch, out=scratch)
        scratch *= rate * (1 - beta1) / ((1 - beta1**self.steps) * root)
        self.parameters -= scratch

    def write_back(self) -> Net:
        with torch.no_grad():
            for layer, weight in zip(self.linears, self.weights, strict=True):
                layer.weight.copy_(torch.from_numpy(weight[:-1].T.copy()))
                layer.bias.copy_(torch.from_numpy(weight[-1].copy()))
        return self.net
