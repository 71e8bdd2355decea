import math

import numpy as np
import pytest
import torch

from reticent import state
from reticent.errors import DataError
from reticent.learn import scattering
from reticent.learn.encoders import EncoderConfig, fit, pca
from reticent.learn.scattering import Axis, by_fft, features, made_pictures, morlet, normalised, scatter, spectra

cpu = torch.device("cpu")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def noise(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=rng(1)) * 2 - 1


def in_numpy(picture: np.ndarray) -> np.ndarray:
    """Channel by channel as the textbook has it, for an even side: pad, multiply spectra, read at half pixels, modulus, blur."""
    h = picture.shape[0]
    n = 4 * math.ceil((h + 8) / 4)
    k = np.fft.fftfreq(n) * n
    to_half = np.where(np.abs(k) == n / 2, 0, np.exp(1j * math.pi * k / n))
    first_at = (n - h) / 2 + (h - 1) / 2 - 2 * (math.ceil(h / 4) - 1)
    at = first_at + 4 * np.arange(math.ceil(h / 4))

    def blurred(u: np.ndarray, points: np.ndarray) -> np.ndarray:
        apart = (at[:, None] - points + n / 2) % n - n / 2
        weights = sum(np.exp(-((apart + turn * n) ** 2) / (2 * 1.6**2)) for turn in (-1, 0, 1))
        weights /= weights.sum(1, keepdims=True)
        return weights @ u @ weights.T

    def wave(u: np.ndarray, scale: int, angle: int) -> np.ndarray:
        z = np.fft.fft2(u) * morlet(n, n, scale, angle * math.pi / 8)
        return np.abs(np.fft.ifft2(z)) if scale == 0 else np.abs(np.fft.ifft2(z * to_half[:, None] * to_half))[::2, ::2]

    whole = np.pad(picture, (n - h) // 2, mode="reflect")
    fine, coarse, angles = np.arange(n), np.arange(0, n, 2) + 0.5, range(-3, 5)
    firsts = [wave(whole, 0, a) for a in angles]
    out = [blurred(whole, fine), *(blurred(u, fine) for u in firsts), *(blurred(wave(whole, 1, a), coarse) for a in angles)]
    return np.stack([*out, *(blurred(wave(u, 1, a), coarse) for u in firsts for a in angles)])


def test_a_quadrant_becomes_81_channels_of_4_by_4_that_numpy_agrees_with():
    x = noise(3, 1, 14, 14)
    z = scatter(x)
    assert z.shape == (3, 81, 4, 4) and z.dtype == torch.float32
    expected = np.stack([in_numpy(picture) for picture in x[:, 0].double().numpy()])
    assert np.abs(z.numpy() - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("size", [(14, 14), (16, 16), (28, 28), (16, 12), (4, 6), (2, 2)], ids=str)
def test_matrix_products_and_ffts_agree(size):
    x = noise(37, 1, *size)
    assert scatter(x).shape == (37, 81, math.ceil(size[0] / 4), math.ceil(size[1] / 4))
    assert torch.allclose(scatter(x), by_fft(x[:, 0].double()).float(), atol=1e-6)


@pytest.mark.parametrize("size", [(15, 14), (7, 7), (1, 1), (3, 64), (1, 9)], ids=str)
def test_any_size_is_scattered(size):
    z = scatter(noise(2, 3, *size))
    assert z.shape == (2, 243, math.ceil(size[0] / 4), math.ceil(size[1] / 4))
    assert bool(z.isfinite().all())


@pytest.mark.parametrize("size", [14, 15], ids=["matrices", "ffts"])
def test_a_constant_picture_is_itself_in_the_first_channel_and_nothing_in_the_others(size):
    z = scatter(torch.full((1, 1, size, size), -0.7))
    assert torch.allclose(z[:, 0], torch.full((1, 4, 4), -0.7), atol=1e-6)
    assert float(z[:, 1:].abs().max()) < 1e-6


@pytest.mark.parametrize("size", [28, 29], ids=["matrices", "ffts"])
def test_a_picture_moved_by_the_stride_has_its_numbers_moved_by_one(size):
    blob = torch.zeros(1, 1, size, size)
    blob[..., 12:15, 11:16] = noise(3, 5)
    z, moved = scatter(blob), scatter(blob.roll((4, -4), (2, 3)))
    assert torch.allclose(moved[..., 2:, :-2], z[..., 1:-1, 1:-1], atol=2e-3 * float(z.abs().max()))
    assert float((moved - z).abs().max()) > 0.1 * float(z.abs().max())


def test_a_mirrored_picture_has_a_mirrored_transform():
    x = noise(5, 1, 14, 14)
    z, mirrored = scatter(x).flip(-1), scatter(x.flip(-1))
    turned = [6, 5, 4, 3, 2, 1, 0, 7]  # angles -3 … 4 of eighths, each at its mirror image
    order = [0, *(1 + i for i in turned), *(9 + i for i in turned), *(17 + 8 * i + j for i in turned for j in turned)]
    assert torch.allclose(mirrored, z[:, order], atol=1e-6)


def test_the_wavelets_keep_energy_and_create_none():
    side = Axis(14).padded
    fine, coarse, _ = spectra(14, 14)
    k = 2 * math.pi * torch.fft.fftfreq(side, dtype=torch.float64)
    low = torch.exp(-(1.6**2) * (k[:, None] ** 2 + k**2))  # the low-pass, squared
    both = [(f**2 + torch.roll(f.flip(1, 2), (1, 1), (1, 2)) ** 2).sum(0) / 2 for f in (fine, coarse)]  # a real picture has either sign's half
    assert float((low + both[0] + both[1]).max()) <= 1 + 1e-9
    inside = k[:, None] ** 2 + k**2 < (0.75 * math.pi) ** 2
    assert float((low + both[0] + both[1])[inside].min()) > 0.3
    assert float(both[0][0, 0] + both[1][0, 0]) < 1e-20


def test_colours_are_scattered_each_for_itself():
    x = noise(4, 3, 8, 8)
    assert torch.allclose(scatter(x), torch.cat([scatter(x[:, i : i + 1]) for i in range(3)], 1), atol=1e-6)


def test_bits_are_the_same_again_and_on_any_number_of_threads():
    x = noise(101, 1, 14, 14)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            found.append(scatter(x))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_normalised_rows_have_norm_one_and_read_no_other_row():
    z = scatter(noise(20, 1, 14, 14))
    rows = normalised(z)
    assert rows.shape == (20, 1296)
    assert torch.allclose(rows.norm(dim=1), torch.ones(20), atol=1e-5)
    assert torch.allclose(rows.view(20, 27, 48).mean(2), torch.zeros(20, 27), atol=1e-6)
    assert torch.allclose(normalised(z[3:4]), rows[3:4], atol=1e-7)
    assert torch.equal(normalised(torch.zeros(1, 81, 4, 4)), torch.zeros(1, 1296))


def test_the_encoder_is_the_pca_of_the_scattering():
    x = noise(60, 1, 8, 8)
    made = fit(x, EncoderConfig("scattering", dim=5), rng(), cpu)
    assert torch.allclose(made(x), pca(features(x), 5)(features(x)), atol=1e-5)
    assert torch.equal(state.from_bytes(state.to_bytes(made))(x), made(x))


def test_the_made_basis_keeps_more_of_real_edges_than_as_many_random_directions():
    edges = (torch.arange(14.0)[None, None, :] > torch.rand(200, 1, 1, generator=rng(2)) * 14).float().expand(200, 14, 14)[:, None] * 2 - 1
    edges = torch.where((torch.arange(200) % 2 == 0)[:, None, None, None], edges, edges.transpose(2, 3))
    made = fit(edges[:1], EncoderConfig("scattering-made", dim=16), rng(), cpu)
    whole = features(edges, normal=True)
    kept = float(made(edges).var(0).sum() / whole.var(0).sum())
    assert kept > 3 * 16 / 1296
    assert float((made(edges).norm(dim=1) - 1).max()) < 1


def test_made_pictures_are_pink_and_always_the_same():
    x = made_pictures(1, 16, 16, 64)
    assert torch.equal(x, made_pictures(1, 16, 16, 64))
    assert float(x.amin()) == -1 and float(x.amax()) == 1
    power = torch.fft.rfft2(x - x.mean((2, 3), keepdim=True)).abs().square().mean((0, 1))
    assert float(power[0, 1] + power[1, 0]) > 5 * float(power[0, 4] + power[4, 0])


def test_a_basis_is_learnt_from_at_most_so_many_rows(monkeypatch):
    x = torch.arange(10.0)[:, None]
    monkeypatch.setattr(scattering, "BASIS_ROWS", 4)
    assert scattering.basis_rows(x).flatten().tolist() == [0, 3, 6, 9]
    assert torch.equal(scattering.basis_rows(x[:3]), x[:3])


def test_what_is_no_picture_is_said_in_a_sentence():
    with pytest.raises(DataError, match="needs pictures"):
        scatter(torch.zeros(3, 6))
