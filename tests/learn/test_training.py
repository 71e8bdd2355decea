import torch
from torch import nn

from reticent import state
from reticent.learn import nets
from reticent.learn.training import Adam, Schedule, Trained, rate, train, train_flat

cpu = torch.device("cpu")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


class WithMemory(nn.Module):
    """A user's module with the global generator's dropout and with buffers: the hard case for an exact snapshot."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def made() -> list[nets.Net]:
    place = f"{__name__}:WithMemory"
    return [nets.mlp(6, (8,), 3, rng(), "tanh", dropout=0.3), nets.own(place, 6, 3, rng())]


def exchange(trained: Trained, numbers: range) -> None:
    for i in numbers:
        z = trained.forward(torch.randn(10, 6, generator=rng(i)))
        trained.backward(z * 0.1 - torch.randn(10, 3, generator=rng(i)))


def bits(trained: Trained) -> bytes:
    return state.to_bytes(trained)


def test_a_snapshot_goes_on_bit_for_bit():
    for net in made():
        whole = Trained(net, 1e-2, 1e-3)
        exchange(whole, range(4))
        again = state.from_bytes(bits(whole))
        exchange(whole, range(4, 9))
        exchange(again, range(4, 9))
        assert bits(whole) == bits(again)


def test_a_snapshot_between_forward_and_backward_goes_on_bit_for_bit():
    for net in made():
        whole = Trained(net, 1e-2, 0.0)
        exchange(whole, range(3))
        z = whole.forward(torch.randn(10, 6, generator=rng(77)))
        again = state.from_bytes(bits(whole))
        assert torch.equal(again.outputs, z)
        for trained in (whole, again):
            trained.backward(torch.ones_like(z))
            exchange(trained, range(3))
        assert bits(whole) == bits(again)


def test_adam_is_that_of_torch():
    for decoupled, kind in ((False, torch.optim.Adam), (True, torch.optim.AdamW)):
        net, twin = nets.mlp(3, (5,), 2, rng()), nets.mlp(3, (5,), 2, rng())
        mine, theirs = Adam(net.parameters(), 0.1, decoupled), kind(twin.parameters(), lr=0.01, weight_decay=0.1)
        for i in range(20):
            x = torch.randn(4, 3, generator=rng(i))
            theirs.zero_grad()
            for each in (net, twin):
                each(x).square().sum().backward()
            mine.step(0.01)
            theirs.step()
        for a, b in zip(net.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def test_one_cycle_rises_to_lr_and_ends_at_nothing():
    schedule = Schedule(1, 1, 0.1, 0.0, one_cycle=True)
    rates = [rate(schedule, step, 100) for step in range(101)]
    assert abs(max(rates) - 0.1) < 1e-9
    assert rates.index(max(rates)) == 30
    assert rates[0] < 0.01
    assert rates[100] < 1e-9
    assert rate(Schedule(1, 1, 0.1, 0.0), 70, 100) == 0.1


def test_both_loops_visit_each_row_once_an_epoch_and_say_so():
    seen: list[int] = []
    heard: list[tuple[int, int, float]] = []
    net = nets.mlp(2, (), 1, rng())

    def slope(z, rows, epoch):
        seen.extend(rows.tolist())
        return z * 0, 0.5 * len(z)

    train_flat(net, torch.zeros(7, 2).numpy(), slope, Schedule(2, 3, 0.1, 0.0), rng(), lambda *a: heard.append(a))
    assert sorted(seen) == sorted([*range(7)] * 2)
    assert heard == [(1, 2, 0.5), (2, 2, 0.5)]
    seen.clear()

    def loss(rows, epoch):
        seen.extend(rows.tolist())
        return net(torch.zeros(len(rows), 2)).sum() * 0 + 0.5

    assert train(net.parameters(), loss, 7, Schedule(2, 3, 0.1, 0.0), rng(), cpu) == [0.5, 0.5]
    assert sorted(seen) == sorted([*range(7)] * 2)


def test_training_stops_early_only_where_patience_says_so():
    net = nets.mlp(2, (), 1, rng())
    arguments = (net, torch.zeros(4, 2).numpy(), lambda z, rows, epoch: (z * 0, 1.0))
    assert len(train_flat(*arguments, Schedule(9, 4, 0.1, 0.0), rng())) == 9
    assert len(train_flat(*arguments, Schedule(9, 4, 0.1, 0.0, patience=2), rng())) == 3
    checks = iter([3.0, 2.0, 1.0, 1.0, 1.5, 0.5])
    assert len(train_flat(*arguments, Schedule(9, 4, 0.1, 0.0, patience=2), rng(), check=lambda: next(checks))) == 5
