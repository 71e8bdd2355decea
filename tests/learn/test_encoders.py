import numpy as np
import pytest
import torch

from reticent import state
from reticent.errors import DataError, PrivacyError, StudyError
from reticent.learn import encoders
from reticent.learn.encoders import NAMES, EncoderConfig, fit, width

cpu = torch.device("cpu")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def config(name: str, dim: int = 3) -> EncoderConfig:
    return EncoderConfig(name, dim=dim, epochs=2)


table = torch.randn(300, 6, generator=rng(5)) @ torch.randn(6, 6, generator=rng(6))
pictures = torch.rand(40, 1, 8, 8, generator=rng(7)) * 2 - 1


def test_pca_is_numpys_svd_up_to_sign():
    z = fit(table, config("pca"), rng(), cpu)(table).numpy()
    x = table.double().numpy()
    u, s, _ = np.linalg.svd(x - x.mean(0), full_matrices=False)
    expected = (u * s)[:, :3]
    assert np.allclose(z, expected * np.sign((z * expected).sum(0)), atol=1e-4)


def test_pca_of_a_toy_has_exact_numbers():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])  # on a line: the second component is empty
    assert torch.allclose(fit(x, config("pca", 2), rng(), cpu)(x), torch.tensor([[-5.0, 0.0], [0.0, 0.0], [5.0, 0.0]]), atol=1e-5)


def test_pca_of_few_wide_rows_is_the_same_as_of_numpy():
    x = torch.randn(5, 20, generator=rng())
    z = fit(x, config("pca", 8), rng(), cpu)(x)
    assert z.shape == (5, 8)
    assert torch.allclose(z[:, 4:], torch.zeros(5, 4))  # five centred rows span four directions
    assert torch.allclose(torch.pdist(z), torch.pdist(x), atol=1e-4)


def test_rank_pca_ignores_how_a_column_is_bent():
    bent = torch.stack([table[:, 0].exp(), table[:, 1] ** 3, *table[:, 2:].T], 1)
    straight, curved = (fit(x, config("rank-pca"), rng(), cpu)(x) for x in (table, bent))
    assert torch.equal(straight, curved)


def test_rank_pca_of_a_toy_has_exact_numbers():
    x = torch.tensor([[5.0], [1.0], [7.0]])  # ranks 2, 1, 3 of 3: the quarters of the normal distribution
    expected = torch.special.ndtri(torch.tensor([0.5, 0.25, 0.75], dtype=torch.float64)).float()[:, None]
    assert torch.allclose(fit(x, config("rank-pca", 1), rng(), cpu)(x).abs(), expected.abs(), atol=1e-6)


def test_rank_pca_leaves_two_valued_columns_as_they_are():
    x = torch.cat([torch.bernoulli(torch.full((300, 2), 0.3), generator=rng(1)), torch.zeros(300, 1)], 1)
    assert torch.allclose(fit(x, config("rank-pca"), rng(), cpu)(x), fit(x, config("pca"), rng(), cpu)(x), atol=1e-6)


def test_rank_pca_keeps_no_more_than_its_quantiles():
    x = torch.randn(5000, 2, generator=rng(2))
    made = fit(x, config("rank-pca"), rng(), cpu)
    assert made.grid.shape == (2, encoders.QUANTILES)
    assert torch.isfinite(made(torch.tensor([[1e9, -1e9]]))).all()


def test_random_projection_is_orthonormal():
    made = fit(table, config("random"), rng(), cpu)
    assert torch.allclose(made.matrix.T @ made.matrix, torch.eye(3), atol=1e-6)
    assert fit(table, config("random", 9), rng(), cpu)(table).shape == (300, 9)


def test_identity_is_the_columns_themselves():
    assert torch.equal(fit(table, config("identity", 4), rng(), cpu)(table), table[:, :4])
    assert torch.equal(fit(table, config("identity", 9), rng(), cpu)(table), table)


@pytest.mark.parametrize("x", [table, pictures], ids=["table", "pictures"])
@pytest.mark.parametrize("name", NAMES)
def test_every_encoder_comes_back_bit_for_bit_and_is_deterministic(name, x):
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    made = fit(x, config(name), rng(), cpu)
    z = made(x)
    assert z.shape == (len(x), made.dim)
    assert z.dtype == torch.float32
    assert bool(z.isfinite().all())
    assert made.dim == width(config(name), x[0].numel())
    data = state.to_bytes(made)
    assert torch.equal(state.from_bytes(data)(x), z)
    assert state.to_bytes(fit(x, config(name), rng(), cpu)) == data
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("x", [torch.ones(50, 4), torch.randn(1, 4), torch.randn(50, 1), torch.zeros(1, 1), torch.ones(1, 1, 3, 3)], ids=str)
def test_constant_columns_one_row_and_one_column_are_encoded(name, x):
    made = fit(x, config(name), rng(), cpu)
    z = made(x)
    assert z.shape == (len(x), made.dim)
    assert bool(z.isfinite().all())
    if name == "pca" and len(x) == 1:
        assert torch.equal(z, torch.zeros_like(z))


def test_blocks_make_bits_independent_of_the_rows_that_follow():
    x = torch.randn(4096 + 10, 6, generator=rng())
    for name in ("pca", "random-net"):
        made = fit(x[:200], config(name), rng(), cpu)
        assert torch.equal(made(x)[:4096], made(x[:4096]))


def test_an_autoencoder_learns_more_than_an_untrained_net():
    shown = []
    fit(table, EncoderConfig("autoencoder", dim=3, epochs=20), rng(), cpu, progress=lambda epoch, epochs, loss: shown.append((epoch, epochs, loss)))
    assert [s[:2] for s in shown] == [(i + 1, 20) for i in range(20)]
    assert shown[-1][2] < 0.8 * shown[0][2]


def test_a_party_may_bring_its_own_module():
    made = fit(table, EncoderConfig("nat", dim=3, epochs=2, module="torch.nn:Linear"), rng(), cpu)
    assert torch.equal(state.from_bytes(state.to_bytes(made))(table), made(table))
    assert made.net.spec["module"] == "torch.nn:Linear"


def test_what_cannot_be_is_said_in_a_sentence():
    with pytest.raises(StudyError, match="encoder 'pac' is unknown: use one of auto, rank-pca, pca, identity"):
        fit(table, config("pac"), rng(), cpu)
    with pytest.raises(StudyError, match="dim is 0"):
        fit(table, config("pca", 0), rng(), cpu)
    with pytest.raises(DataError, match="at least one row"):
        fit(table[:0], config("pca"), rng(), cpu)
    with pytest.raises(PrivacyError, match="no private form"):
        fit(table, config("pca"), rng(), cpu, mechanism=object())


def test_the_default_is_rank_pca_for_columns_and_scattering_for_pictures():
    assert EncoderConfig().name == "auto"
    columns, pixels = fit(table, config("auto"), rng(), cpu), fit(pictures, config("auto"), rng(), cpu)
    assert (type(columns).__name__, type(pixels).__name__) == ("Ranked", "Scattering")
    assert encoders.width(EncoderConfig(), 5) == 5
