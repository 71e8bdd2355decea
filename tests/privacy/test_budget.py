"""A budget over all runs: noised answers are composed, un-noised ones listed, and nothing is charged twice."""

import pytest

from reticent.errors import JournalError, Refused
from reticent.privacy import accounting
from reticent.privacy.budget import Budget

NOISE = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}


def charge(budget, n, events=(NOISE,), run="r", bare=False, sealed=b"0123456789"):
    budget.charge(run=run, n=n, verb="v", events=list(events), bare=bare, sealed=sealed)


def test_answers_of_all_runs_add_up_until_the_budget_says_no(tmp_path):
    two = accounting.epsilon([NOISE, NOISE], 1e-5)
    budget = Budget(tmp_path / "bank.toml.budget", two + 0.01, 1e-5)
    charge(budget, "fit/0", run="first")
    charge(budget, "fit/0", run="second")
    assert budget.spent() == pytest.approx(two)
    with pytest.raises(Refused, match=r"epsilon = .* would be spent"):
        charge(budget, "fit/0", run="third")
    assert len(budget.lines()) == 2


def test_an_answer_that_is_sent_again_is_charged_once(tmp_path):
    budget = Budget(tmp_path / "b", 10.0, 1e-5)
    charge(budget, "fit/0")
    charge(budget, "fit/0")
    assert len(budget.lines()) == 1
    charge(budget, "fit/0", sealed=b"other noise")  # a guest that lost its folder draws anew: a second release
    assert len(budget.lines()) == 2


def test_un_noised_answers_are_listed_and_not_summed(tmp_path):
    budget = Budget(tmp_path / "b", 0.1, 1e-5)
    charge(budget, "fit/0", events=(), bare=True)
    charge(budget, "fit/1", events=(), bare=False)
    assert [line["unnoised_bytes"] for line in budget.lines()] == [10] and budget.spent() == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_stops_what_is_noised(tmp_path):
    (tmp_path / "b").write_text("{")
    with pytest.raises(JournalError, match="line 1"):
        charge(Budget(tmp_path / "b", 10.0, 1e-5), "fit/0")


def test_the_gaussian_agrees_with_its_closed_form():
    # delta(eps) of a Gaussian with sensitivity/sigma = mu (Balle and Wang, 2018), at the epsilon that PLD says
    import math

    mu, epsilon = 0.5, accounting.epsilon([NOISE], 1e-5)
    phi = lambda t: 0.5 * math.erfc(-t / math.sqrt(2))  # noqa: E731
    delta = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=0.02)
