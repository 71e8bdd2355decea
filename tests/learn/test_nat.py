from itertools import permutations

import numpy as np
import torch

from reticent.learn import nat, nets
from reticent.learn.nat import assign, targets, train_nat
from reticent.learn.training import Schedule

cpu = torch.device("cpu")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def test_assignment_of_a_toy_is_the_one_seen_by_eye():
    z = np.array([[0.9, 0.1], [0.0, 0.8], [-1.0, 0.0]], np.float32)
    c = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], np.float32)
    assert assign(z, c).tolist() == [1, 2, 0]


def test_assignment_is_the_least_of_all_permutations():
    for number in range(20):
        z = torch.randn(6, 3, generator=rng(number)).numpy()
        c = targets(6, 3, rng(100 + number))
        least = min(float(((z - c[list(p)]) ** 2).sum()) for p in permutations(range(6)))
        assert np.isclose(((z - c[assign(z, c)]) ** 2).sum(), least, rtol=1e-5)


def test_targets_lie_on_the_unit_sphere():
    assert np.allclose(np.linalg.norm(targets(50, 3, rng()), axis=1), 1, atol=1e-6)


def test_loss_falls_and_targets_are_only_permuted(monkeypatch):
    x = torch.randn(600, 5, generator=rng())
    kept = []
    monkeypatch.setattr(nat, "targets", lambda *a: kept.append((c := targets(*a), c.copy())) or c)
    losses = train_nat(nets.mlp(5, (30, 30), 3, rng(1), "tanh"), x, Schedule(8, 100, 1e-3, 1e-5), 1, rng(2), cpu)
    assert losses[-1] < 0.5 * losses[0]
    (after, before), *_ = kept
    assert not np.array_equal(after, before)
    assert sorted(map(tuple, after)) == sorted(map(tuple, before))


def test_targets_stay_between_epochs_of_the_frequency(monkeypatch):
    calls = []
    monkeypatch.setattr(nat, "assign", lambda z, c: calls.append(1) or assign(z, c))
    train_nat(nets.mlp(2, (4,), 2, rng(), "tanh"), torch.randn(20, 2, generator=rng()), Schedule(7, 10, 1e-3, 0.0), 3, rng(), cpu)
    assert len(calls) == 2 * 2  # epochs 3 and 6, two batches each


def test_nat_learns_pictures_too():
    net = nets.cnn0(1, 8, 8, 2, rng())
    losses = train_nat(net, torch.randn(64, 1, 8, 8, generator=rng(1)), Schedule(6, 32, 1e-3, 1e-5), 1, rng(2), cpu)
    assert losses[-1] < losses[0]
