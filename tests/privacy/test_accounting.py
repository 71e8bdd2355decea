import math

import pytest
from scipy import stats

from reticent.errors import PrivacyError
from reticent.privacy.accounting import epsilon, to_dp_event
from tests.letters import EVENT


def delta_of_gaussian(noise: float, epsilon: float) -> float:
    """Balle and Wang, 2018: exactly, for sensitivity 1."""
    return float(stats.norm.cdf(0.5 / noise - epsilon * noise) - math.exp(epsilon) * stats.norm.cdf(-0.5 / noise - epsilon * noise))


@pytest.mark.parametrize("noise, count", [(1.0, 1), (4.0, 1), (8.0, 4)])
def test_gaussian_events_compose_to_the_exact_curve(noise: float, count: int) -> None:
    found = epsilon([{"type": "GaussianDpEvent", "noise_multiplier": noise}] * count, 1e-5)
    assert delta_of_gaussian(noise / math.sqrt(count), found) == pytest.approx(1e-5, rel=0.01)


def test_nothing_released_costs_nothing() -> None:
    assert epsilon([], 1e-5) == 0.0


def test_events_nest_as_they_were_recorded() -> None:
    from dp_accounting import dp_event

    assert to_dp_event(EVENT) == dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.5))
    composed = {"type": "ComposedDpEvent", "events": [EVENT, {"type": "LaplaceDpEvent", "noise_multiplier": 2.0}]}
    assert to_dp_event(composed) == dp_event.ComposedDpEvent([dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.5)), dp_event.LaplaceDpEvent(2.0)])


@pytest.mark.parametrize("event", [{"type": "os"}, {"type": "Gauss"}, {}, {"type": "attr"}])
def test_an_event_nobody_knows_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(PrivacyError, match="is no event that dp-accounting knows"):
        to_dp_event(event)


def test_an_event_that_is_not_private_costs_infinity() -> None:
    assert epsilon([{"type": "NonPrivateDpEvent"}], 1e-5) == math.inf
