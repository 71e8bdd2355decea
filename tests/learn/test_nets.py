import pytest
import torch
from torch import nn

from reticent import state
from reticent.errors import StudyError
from reticent.learn import nets


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


class Squared(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).square()


def examples() -> list[tuple[nets.Net, torch.Tensor]]:
    return [
        (nets.mlp(4, (5, 6), 3, rng(), "tanh", 0.5), torch.randn(7, 4, generator=rng(1))),
        (nets.cnn0(1, 14, 14, 8, rng()), torch.randn(3, 1, 14, 14, generator=rng(1))),
        (nets.cnn0(3, 4, 7, 2, rng()), torch.randn(3, 3, 4, 7, generator=rng(1))),
        (nets.features(1, 14, 14, rng()), torch.randn(3, 1, 14, 14, generator=rng(1))),
        (nets.features(2, 1, 1, rng()), torch.randn(3, 2, 1, 1, generator=rng(1))),
        (nets.own(Squared, 4, 2, rng()), torch.randn(7, 4, generator=rng(1))),
    ]


def test_every_net_comes_back_bit_for_bit_with_its_coins():
    for net, x in examples():
        again = state.from_bytes(state.to_bytes(net))
        assert again.spec == net.spec
        for on in (False, True):  # training mode: dropout draws the same
            assert torch.equal(net.train(on)(x), again.train(on)(x))
        assert net.outputs == net(x).shape[1]


def test_cnn0_of_a_quadrant_flattens_to_1600_numbers():
    assert nets.cnn0(1, 14, 14, 16, rng()).layers[7].weight.shape == (128, 1600)


def test_same_generator_same_bits_and_the_global_ones_are_untouched():
    before = torch.get_rng_state()
    for (one, x), (two, _) in zip(examples(), examples(), strict=True):
        assert torch.equal(one.train()(x), two.train()(x))
    assert torch.equal(before, torch.get_rng_state())


def test_initial_weights_have_pytorchs_distribution():
    weight = nets.mlp(100, (200,), 1, rng()).layers[0].weight.detach()
    assert weight.abs().max() <= 0.1
    assert abs(float(weight.std()) - 0.1 / 3**0.5) < 0.002
    assert not torch.equal(weight, nets.mlp(100, (200,), 1, rng(1)).layers[0].weight)


def test_dropout_keeps_the_mean_and_is_silent_in_use():
    drop = nets.Dropout(0.25, rng())
    x = torch.ones(20_000)
    assert abs(float(drop(x).mean()) - 1) < 0.02
    assert torch.equal(drop.eval()(x), x)


def test_only_a_torch_module_is_ever_called():
    with pytest.raises(StudyError, match="no subclass of torch.nn.Module"):
        nets.own("os:system", 3, 1, rng())
    with pytest.raises(StudyError, match="cannot be imported"):
        nets.own("nowhere.at_all:Net", 3, 1, rng())
    with pytest.raises(StudyError, match="cannot be imported"):
        nets.own("Net", 3, 1, rng())
