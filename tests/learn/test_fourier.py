import pytest
import torch

from reticent import state
from reticent.learn.encoders import READ_NO_DATA, EncoderConfig, fit
from reticent.learn.fourier import Fourier

cpu = torch.device("cpu")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


table = torch.randn(300, 6, generator=rng(1))


def test_a_toy_has_the_formulas_numbers():
    made = Fourier(2, 2, seed=0)
    made.matrix, made.shift = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.0, 0.5])
    z = torch.cos(torch.tensor([0.6, 2 * 0.8 + 0.5]))  # the row (3, 4) at norm 1 is (0.6, 0.8)
    assert torch.allclose(made(torch.tensor([[3.0, 4.0]])), (z / z.norm())[None], atol=1e-6)


def test_a_rows_length_and_the_other_rows_do_not_matter():
    made = fit(table, EncoderConfig("fourier", dim=16), rng(), cpu)
    z = made(table)
    assert torch.allclose(z.norm(dim=1), torch.ones(300), atol=1e-6)
    assert torch.allclose(made(7 * table), z, atol=1e-5)
    assert torch.allclose(made(table[5:6]), z[5:6], atol=1e-6)


def test_products_of_many_features_are_the_gaussian_kernel():
    x = torch.nn.functional.normalize(table[:40], dim=1)
    z = Fourier(6, 40_000, seed=3)(x)
    assert torch.allclose(z @ z.T, torch.exp(-2 * torch.cdist(x, x) ** 2), atol=0.03)


@pytest.mark.parametrize("name", READ_NO_DATA)
@pytest.mark.parametrize("shape", [(6,), (1, 8, 8)], ids=["table", "pictures"])
def test_encoders_that_read_no_data_do_not_depend_on_the_rows(name, shape):
    one, other = torch.randn(30, *shape, generator=rng(1)), torch.full((2, *shape), 9.0)
    fitted = [state.to_bytes(fit(x, EncoderConfig(name, dim=5), rng(), cpu)) for x in (one, other)]
    assert fitted[0] == fitted[1]


def test_the_seed_is_public_and_the_partys_generator_is_left_alone():
    drawn = rng(4)
    before = drawn.get_state()
    made = fit(table, EncoderConfig("fourier", dim=5, seed=8), drawn, cpu)
    assert torch.equal(drawn.get_state(), before)
    assert torch.equal(made(table), Fourier(6, 5, seed=8)(table))
    assert not torch.equal(made(table), Fourier(6, 5, seed=9)(table))


def test_a_blank_row_is_encoded():
    assert bool(Fourier(3, 4, seed=0)(torch.zeros(1, 3)).isfinite().all())
