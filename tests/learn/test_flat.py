import numpy as np
import torch

from reticent.learn import nets
from reticent.learn.flat import Flat, with_ones


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def test_toy_with_exact_numbers():
    net = nets.mlp(1, (1,), 1, rng())
    with torch.no_grad():
        for p, value in zip(net.parameters(), (2.0, 1.0, 3.0, -1.0), strict=True):
            p.fill_(value)
    flat = Flat(net, 2, 0.0, False)
    assert flat.forward(with_ones(np.array([[1.0], [-1.0]], np.float32))).tolist() == [[8.0], [-1.0]]  # 3 relu(2x + 1) - 1
    flat.backward(np.ones((2, 1), np.float32))
    assert flat.gradient.tolist() == [3.0, 3.0, 3.0, 2.0]  # the second row is below the kink
    flat.step(0.5)
    assert np.allclose(flat.parameters, [1.5, 0.5, 2.5, -1.5])  # Adam's first step is the rate


def test_hand_written_steps_are_those_of_torch():
    for decoupled, kind in ((False, torch.optim.Adam), (True, torch.optim.AdamW)):
        net = nets.mlp(4, (6, 5), 2, rng(), "tanh")
        twin = nets.Net.from_arrays(net.to_arrays())
        optimiser = kind(twin.parameters(), lr=0.01, weight_decay=0.1)
        flat = Flat(net, 8, 0.1, decoupled)
        for i in range(30):
            x, t = torch.randn(8 - i % 2, 4, generator=rng(i)), torch.randn(8 - i % 2, 2, generator=rng(i + 50))
            z = flat.forward(with_ones(x.numpy()))
            flat.backward(2 * (z - t.numpy()))
            flat.step(0.01)
            optimiser.zero_grad()
            (twin(x) - t).square().sum().backward()
            optimiser.step()
        flat.write_back()
        for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=2e-5)


def test_dropouts_gradient_is_that_of_the_coins_it_drew():
    net = nets.mlp(3, (8, 8), 1, rng(), dropout=0.4)
    flat = Flat(net, 16, 0.0, False)
    x, coins = with_ones(torch.randn(16, 3, generator=rng(1)).numpy()), net.rng.get_state()

    def total() -> float:
        net.rng.set_state(coins)
        return float(flat.forward(x).sum(dtype=np.float64))

    total()
    flat.backward(np.ones((16, 1), np.float32))
    gradient = flat.gradient.copy()
    for i in range(0, len(gradient), 7):
        flat.parameters[i] += 1e-3
        above = total()
        flat.parameters[i] -= 2e-3
        slope = (above - total()) / 2e-3
        flat.parameters[i] += 1e-3
        assert abs(slope - gradient[i]) < 0.02 * max(1, abs(slope))
