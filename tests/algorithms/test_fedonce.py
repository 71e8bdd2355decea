"""FedOnce says representations and nothing else, in one round, and is as good as it should be on easy tables."""

import json
from pathlib import Path

import polars as pl
import pytest
import torch

from reticent import packing
from reticent import rows as row_sets
from reticent import run as runs
from reticent.algorithms import fedonce
from reticent.errors import LetterError, MissingReplies, StudyError
from reticent.run import Options
from reticent.study import study_from

CREDIT = {"set": "default_credit", "split": "columns", "columns": [5, 6, 6, 6], "host": 0, "rows": 1000, "test": 0.2}


def go(config=None, data=None, task="classification", options=None, folder=None, algorithm="fedonce"):
    wanted = study_from({"study": {"name": "t", "algorithm": algorithm, "task": task}, "data": data or CREDIT, "config": config or {}})
    run = runs.to_completion(wanted, options or Options(), folder)
    run.close()
    return run


def test_fedonce_says_only_representations():
    run = go({"dim": 3, "model": "linear"})
    up = [line for line in run.ledger.lines() if line["way"] == "up" and line["verb"] != "meet"]
    assert {line["verb"] for line in up} == {"learn", "represent"}
    assert all(line["reveals"] == fedonce.Representation.reveals() for line in up)
    assert [line["rows"] for line in up if line["verb"] == "learn"] == [1000] * 3


def test_one_round_to_fit_and_one_to_predict():
    result = go({"dim": 3, "model": "linear"}).result
    assert (result["rounds"]["fit"], result["rounds"]["predict"]) == (1, 1)
    assert result["letters"] == {"fit": 1, "predict": 1}


@pytest.mark.parametrize(("letters", "width"), [("float32", 12), ("float16", 6), ("int8", 3), ("int4", 2), ("int2", 1)])
def test_bytes_are_the_representations(letters, width):
    result = go({"dim": 3, "model": "linear", "letters": letters}).result
    payload = 3 * (1000 * width + (8 * 3 if letters.startswith("int") else 0))
    assert payload < result["bytes"]["fit"]["up"] < payload + 3 * 700


def guest_and_letters(run, name="p1"):
    """A guest of a finished run, and its two answers asked for again."""
    guest, deal = run.doors[name].guest, run.plan.deal
    every = torch.arange(len(guest.party.table))
    return guest, guest.represent(fedonce.Rows(every[deal.train])), guest.represent(fedonce.Rows(every))


@pytest.mark.parametrize("letters", ["int8", "int4", "int2"])
def test_the_same_row_gives_the_same_levels_whenever_it_is_asked_for(letters):
    run = go({"dim": 3, "model": "linear", "letters": letters})
    guest, training, every = guest_and_letters(run)
    assert torch.equal(every.levels[run.plan.deal.train], training.levels)
    assert torch.equal(every.low, training.low) and torch.equal(every.step, training.step)
    again = guest.learn(fedonce.Learn(row_sets.pack(run.plan.deal.train, len(guest.party.table))))
    assert torch.equal(again.levels, training.levels) and torch.equal(again.low, training.low)


@pytest.mark.parametrize("letters", ["int8", "int4", "int2"])
def test_the_scale_of_the_letters_is_the_training_rows(letters):
    run = go({"dim": 3, "model": "linear", "letters": letters})
    guest, training, _ = guest_and_letters(run)
    z = guest.encoder(guest.party.table[run.plan.deal.train])
    low, step = packing.cut(z, letters)
    assert torch.equal(training.low, low) and torch.equal(training.step, step)
    assert torch.equal(training.levels, packing.pack(z, letters, low, step))
    assert (training.z is None) and training.levels.shape == (1000, packing.width(3, letters))


def test_a_guest_brought_back_from_its_snapshot_writes_the_same_levels():
    run = go({"dim": 3, "model": "linear", "letters": "int4"})
    _, training, every = guest_and_letters(run)
    fresh = runs.begin(run.plan, Options())
    fresh.doors["p1"].bring_back(run.doors["p1"].known(2))
    _, training_then, every_then = guest_and_letters(fresh)
    assert (training_then.encode(), every_then.encode()) == (training.encode(), every.encode())
    fresh.abandon()


@pytest.mark.parametrize(("letters", "loss"), [("float16", 0.005), ("int8", 0.01), ("int4", 0.01), ("int2", 0.03)])
def test_few_bits_cost_little(letters, loss):
    data = {**CREDIT, "rows": 6000}
    wide = go({"dim": 3, "model": "gbdt"}, data).result["metrics"]["auc"]
    assert go({"dim": 3, "model": "gbdt", "letters": letters}, data).result["metrics"]["auc"] > wide - loss


@pytest.mark.parametrize(("letter_bytes", "dims", "width"), [(2, (4, 4, 4), 2), (3, (6, 6, 6), 3), (24, (6, 6, 6), 24)])
def test_a_byte_budget_decides_numbers_and_bits(letter_bytes, dims, width):
    run = go({"model": "linear", "letter_bytes": letter_bytes, "dim": 1, "letters": "int2"})
    assert tuple(run.doors[f"p{i}"].guest.encoder.dim for i in (1, 2, 3)) == dims
    up = run.result["bytes"]["fit"]["up"]
    assert 3 * 1000 * width < up < 3 * (1000 * width + 700) and width <= letter_bytes


def test_a_byte_budget_of_nothing_is_refused_in_a_sentence():
    with pytest.raises((StudyError, MissingReplies), match="letter_bytes = 0"):
        go({"model": "linear", "letter_bytes": 0})


@pytest.mark.parametrize(
    ("letters", "answer", "said"),
    [
        ("int8", fedonce.Representation(torch.ones(4, 3)), "shop sent z: in letters of int8 there should be levels, low and step"),
        ("int8", fedonce.Representation(levels=torch.zeros(4, 3, dtype=torch.uint8)), "shop sent levels: in letters of int8"),
        ("float32", fedonce.Representation(), "shop sent nothing: in letters of float32 there should be z alone"),
        ("float16", fedonce.Representation(torch.ones(4, 1), step=torch.ones(1)), "shop sent z, step: in letters of float16"),
        ("int4", fedonce.Representation(levels=torch.zeros(4, 3, dtype=torch.uint8), low=torch.zeros(3), step=torch.ones(3)), "3 columns in int4 take 2 bytes"),
    ],
)
def test_a_letter_that_is_not_as_the_study_says_is_refused(letters, answer, said):
    run = go({"dim": 3, "model": "linear", "letters": letters})
    with pytest.raises(LetterError, match=said):
        run.federation.driver._heard("shop", answer)


def test_what_is_heard_is_the_pca_of_the_training_rows_by_the_training_rows_statistics():
    run = go({"dim": 2, "model": "linear", "encoder": "pca"})
    letter = next(line for line in run.ledger.lines() if line["verb"] == "learn" and line["way"] == "up")
    table = run.doors[letter["from"]].party.table
    x = table[run.plan.deal.train].double()
    x = x - x.mean(0)
    u, s, _ = torch.linalg.svd(x, full_matrices=False)
    z = run.doors[letter["from"]].guest.encoder(table[run.plan.deal.train]).double()
    torch.testing.assert_close(z.abs(), (u[:, :2] * s[:2]).abs(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("host", range(4))
def test_any_party_can_be_host(host):
    result = go({"dim": 3, "model": "gbdt"}, {**CREDIT, "host": host}).result
    assert result["parties"][0] == f"p{host}" and result["metrics"]["auc"] > 0.7


def test_a_host_with_labels_and_no_columns_works():
    result = go({"dim": 6, "model": "gbdt"}, {**CREDIT, "host": "labels-only"}).result
    assert result["parties"] == ["host", "p0", "p1", "p2", "p3"] and result["metrics"]["auc"] > 0.7


@pytest.mark.parametrize("encoder", ["rank-pca", "identity", "pca", "random", "random-net", "nat", "autoencoder"])
def test_every_encoder_beats_solo(encoder):
    solo = go({"model": "gbdt"}, algorithm="solo").result["metrics"]["auc"]
    assert go({"dim": 4, "encoder": encoder, "model": "gbdt", "guest_epochs": 3}).result["metrics"]["auc"] > solo + 0.03


def table(path: Path, labels: dict[str, list[object]], n: int = 300) -> str:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(n, 6, generator=g)
    columns = {f"x{i}": x[:, i].tolist() for i in range(6)}
    pl.DataFrame({**columns, **labels}).write_parquet(path)
    return str(path)


def columns_of(n: int = 300) -> torch.Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(1))


def test_several_classes(tmp_path):
    x = columns_of()
    y = torch.bucketize(x[:, 1] + x[:, 4], torch.tensor([-0.7, 0.7]))
    data = {"set": table(tmp_path / "t.parquet", {"y": [f"c{int(v)}" for v in y]}), "label": "y", "split": "equal", "parties": 3, "test": 0.2}
    run = go({"dim": 2, "model": "linear"}, data)
    assert run.test_scores.shape == (60, 3) and run.result["metrics"]["accuracy"] > 0.7


def test_several_labels(tmp_path):
    x = columns_of()
    labels = {"a": (x[:, 0] > 0).long().tolist(), "b": (x[:, 3] + x[:, 5] > 0).long().tolist()}
    data = {"set": table(tmp_path / "t.parquet", labels), "label": ["a", "b"], "split": "equal", "parties": 3, "test": 0.2}
    run = go({"dim": 2, "model": "linear"}, data)
    assert run.test_scores.shape == (60, 2) and run.result["metrics"]["accuracy"] > 0.85


def test_regression(tmp_path):
    x = columns_of()
    data = {"set": table(tmp_path / "t.parquet", {"y": (3 * x[:, 1] - 2 * x[:, 5] + 10).tolist()}), "label": "y", "split": "equal", "parties": 3, "test": 0.2}
    assert go({"dim": 2, "model": "linear"}, data, "regression").result["metrics"]["r2"] > 0.99


def test_the_model_is_the_same_bit_for_bit_on_both_wires(tmp_path):
    here = go({"dim": 3, "model": "gbdt"}).result
    there = go({"dim": 3, "model": "gbdt"}, options=Options(wire="processes"), folder=tmp_path / "run").result
    assert here["digest"] == there["digest"] and here["bytes"] == there["bytes"]
    lines = [json.loads(line) for line in (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()]
    assert sum(line["bytes"] for line in lines) == sum(there["bytes"][phase][way] for phase in ("meet", "fit", "predict") for way in ("up", "down"))


def test_a_module_of_the_partys_own_needs_an_encoder_that_trains(tmp_path):
    wanted = study_from({"study": {"name": "t", "algorithm": "fedonce", "task": "classification"}, "data": CREDIT, "config": {"model": "linear"}})
    plan = runs.plans.make(wanted)
    run = runs.begin(plan, Options())
    run.doors["p1"].party.module = "torch.nn:Linear"
    with pytest.raises(MissingReplies, match='encoder = "auto" trains no net'):
        run.execute()
    run.abandon()


def test_a_guest_can_bring_its_own_module_and_the_host_too():
    wanted = study_from(
        {
            "study": {"name": "t", "algorithm": "fedonce", "task": "classification"},
            "data": CREDIT,
            "config": {"encoder": "autoencoder", "guest_epochs": 2, "model": "torch.nn:Linear"},
        }
    )
    run = runs.begin(runs.plans.make(wanted), Options())
    run.doors["p1"].party.module = "torch.nn:Linear"
    assert run.execute()["metrics"]["auc"] > 0.6
    assert run.doors["p1"].guest.encoder.to_arrays()["net"].spec["kind"] == "own"
    run.abandon()


def test_an_unknown_encoder_is_refused_in_a_sentence():
    with pytest.raises((StudyError, MissingReplies), match="pca"):
        go({"encoder": "pcaa"})
