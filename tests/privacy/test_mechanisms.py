from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor

from reticent.errors import PrivacyError
from reticent.message import Noised
from reticent.privacy import mechanisms
from reticent.privacy.mechanisms import clip_rows, gaussian_rows, gaussian_sum
from reticent.privacy.secret import Stream

Mechanism = Callable[[Tensor, float, float, Stream], Noised]

CLIP, NOISE = 2.0, 1.5
ROWS, COLUMNS = 4000, 5


def fits(mechanism: Mechanism) -> bool:
    """The detector: the released noise has the deviation that the event and the declared clip promise, and a person moves the release by no more.

    Chi-square on the variance of 20,000 numbers (power: 2 % more or less noise is seen), and one blanked row at twice the clip."""
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(1)).double() / 10
    x[0] = 100.0
    outputs = [mechanism(rows, CLIP, NOISE, Stream(bytes(32))) for rows in (x, torch.cat([torch.zeros(1, COLUMNS).double(), x[1:]]))]
    released, blanked = (one.tensor.double() for one in outputs)
    promised = outputs[0].event["noise_multiplier"]
    assert isinstance(promised, float)
    if float((released - blanked).norm()) > CLIP * 1.0001:
        return False
    if released.dim() == 2:
        noise = (released - clip_rows(x, CLIP)).flatten()
    else:
        exact = clip_rows(x, CLIP).sum(0)
        noise = torch.cat([mechanism(x, CLIP, NOISE, Stream(seed.to_bytes(32, "big"))).tensor.double() - exact for seed in range(1000)])
    ratio = float(noise.square().sum()) / (promised * CLIP) ** 2
    return bool(min(stats.chi2.cdf(ratio, len(noise)), stats.chi2.sf(ratio, len(noise))) > 1e-4) and bool(
        stats.kstest(noise.numpy() / (promised * CLIP), "norm").pvalue > 1e-4
    )


def broken(mechanism: Mechanism, how: str) -> Mechanism:
    def spoiled(rows: Tensor, clip: float, noise: float, stream: Stream) -> Noised:
        if how == "double sensitivity":
            return Noised(mechanism(rows, 2 * clip, noise / 2, stream).tensor, {"type": "GaussianDpEvent", "noise_multiplier": noise})
        share = {"no noise": 1e-9, "half noise": 0.5, "5 % less noise": 0.95}[how]
        return Noised(mechanism(rows, clip, noise * share, stream).tensor, {"type": "GaussianDpEvent", "noise_multiplier": noise})

    return spoiled


@pytest.mark.parametrize("mechanism", [gaussian_rows, gaussian_sum])
def test_the_released_noise_is_what_the_event_says(mechanism: Mechanism) -> None:
    assert fits(mechanism)


@pytest.mark.parametrize("how", ["no noise", "half noise", "5 % less noise", "double sensitivity"])
@pytest.mark.parametrize("mechanism", [gaussian_rows, gaussian_sum])
def test_a_broken_mechanism_is_caught_by_the_detector(mechanism: Mechanism, how: str) -> None:
    assert not fits(broken(mechanism, how))


def test_the_event_says_the_multiplier() -> None:
    for mechanism in (gaussian_rows, gaussian_sum):
        assert mechanism(torch.ones(2, 2), CLIP, NOISE, Stream(bytes(32))).event == {"type": "GaussianDpEvent", "noise_multiplier": 1.5}


def test_rows_are_clipped_to_these_numbers() -> None:
    clipped = clip_rows(torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    assert torch.allclose(clipped, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
    wild = torch.randn(1000, 7, generator=torch.Generator().manual_seed(0)) * 10
    assert float(clip_rows(wild, 0.5).norm(dim=1).max()) <= 0.5 * (1 + 1e-6)


def test_another_row_is_not_moved_by_a_blanked_one() -> None:
    x = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    blanked = x.clone()
    blanked[4] = 0
    one, other = (gaussian_rows(rows, CLIP, NOISE, Stream(bytes(32))).tensor for rows in (x, blanked))
    assert (one != other).any(1).nonzero().flatten().tolist() == [4]


def test_a_row_that_is_not_finite_counts_as_blank() -> None:
    x = torch.ones(4, 3)
    x[1, 1], x[2, 0], x[3, 2] = float("nan"), float("inf"), 1e30
    blank = x.clone()
    blank[1:3] = 0
    for mechanism in (gaussian_rows, gaussian_sum):
        one, other = (mechanism(rows, CLIP, NOISE, Stream(bytes(32))).tensor for rows in (x, blank))
        assert torch.equal(one, other)
        assert one.isfinite().all()


@pytest.mark.parametrize(
    "clip, noise", [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, -1.0), (float("inf"), 1.0), (1.0, float("inf")), (float("nan"), 1.0), (1.0, float("nan"))]
)
def test_a_clip_or_noise_that_protects_nothing_is_refused(clip: float, noise: float) -> None:
    for mechanism in (mechanisms.gaussian_rows, mechanisms.gaussian_sum):
        with pytest.raises(PrivacyError, match="both must be positive and finite"):
            mechanism(torch.ones(2, 2), clip, noise, Stream(bytes(32)))
