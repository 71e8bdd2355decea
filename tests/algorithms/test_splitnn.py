"""Split learning is one network: cut or whole, it computes the same; and its budget counts true bytes."""

import pytest
import torch

from reticent import run as runs
from reticent.algorithms import splitnn
from reticent.run import Options
from reticent.study import study_from

CREDIT = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "host": 0, "rows": 1000, "test": 0.2}


def go(config=None, data=None, folder=None):
    wanted = study_from({"study": {"name": "t", "algorithm": "splitnn", "task": "classification"}, "data": data or CREDIT, "config": config or {}})
    run = runs.to_completion(wanted, Options(), folder)
    run.close()
    return run


def test_one_step_equals_the_same_step_of_the_net_in_one_piece():
    run = go({"dim": 2, "epochs": 1, "batch": 1000, "weight_decay": 0.0})  # one batch, so one step of Adam
    deal, seed = run.plan.deal, run.plan.study.study.seed
    config = run.plan.config
    tables = {name: runs.plans.party(run.plan, name, None, torch.device("cpu")) for name in deal.names}
    parts = {name: splitnn.part(party, party.table.fit(deal.train).shape[1:], config, 1e-3) for name, party in tables.items()}
    top = torch.nn.Sequential(splitnn.nets.mlp(8, config.top_hidden, 1, tables["p0"].seeded("top")))
    chosen = splitnn.batch(seed, 1000, 1000, 0)
    x = {name: party.table[deal.train][chosen] for name, party in tables.items()}
    parameters = [p for part in parts.values() for p in part.net.parameters()] + list(top.parameters())
    optimiser = torch.optim.Adam(parameters, 1e-3)
    h = torch.cat([part.net(x[name]) for name, part in parts.items()], 1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(top(h)[:, 0], deal.labels.y[deal.train][chosen])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    with torch.no_grad():
        whole = top(torch.cat([parts[name].net.eval()(party.table[deal.test]) for name, party in tables.items()], 1))[:, 0]
    torch.testing.assert_close(run.test_scores, whole, rtol=1e-4, atol=1e-5)


def test_a_batch_is_one_round():
    result = go({"dim": 2, "epochs": 2, "batch": 100}).result
    assert result["rounds"]["fit"] == 2 * 10 + 1  # and the last gradients


def test_the_budget_is_kept_in_true_bytes():
    result = go({"dim": 3, "byte_budget": 200_000, "epochs": 50}).result
    spent = sum(result["bytes"]["fit"].values())
    assert 150_000 <= spent <= 200_000


def test_rates_that_were_not_chosen_are_counted_apart():
    result = go({"dim": 3, "byte_budget": 60_000, "lr": [1e-5, 1e-2], "epochs": 50}).result
    assert sum(result["bytes"]["fit"].values()) <= 60_000
    assert 40_000 < sum(result["bytes"]["search"].values()) < 160_000


def test_it_learns():
    assert go({"dim": 4, "epochs": 10, "lr": 3e-3}).result["metrics"]["auc"] > 0.7


def test_a_host_without_columns_works():
    assert go({"dim": 4, "epochs": 10, "lr": 3e-3}, {**CREDIT, "host": "labels-only"}).result["metrics"]["auc"] > 0.7


def test_the_gradients_docstring_says_that_it_reveals_labels():
    assert "label" in splitnn.Gradient.reveals().lower()


@pytest.mark.parametrize("rows", [101, 200])
def test_all_parties_shuffle_alike_and_see_every_row_once_an_epoch(rows):
    seen = torch.cat([splitnn.batch(3, 100, rows, number) for number in range(2)])
    assert sorted(seen.tolist()) == list(range(rows))
    again = splitnn.batch(3, 100, rows, 2)
    assert again.tolist() != splitnn.batch(3, 100, rows, 0).tolist()
