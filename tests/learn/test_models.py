import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from reticent import state
from reticent.errors import DataError, StudyError
from reticent.learn.metrics import measure
from reticent.learn.models import NAMES, ModelConfig, candidates, fit, held_out, row_weights
from reticent.learn.task import Task

cpu = torch.device("cpu")
binary = Task("binary")


def rng(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def table(rows: int = 400) -> tuple[torch.Tensor, list[torch.Tensor]]:
    return torch.randn(rows, 3, generator=rng(1)) * 2 + 5, [torch.randn(rows, 2, generator=rng(2)), torch.rand(rows, 1, generator=rng(3)) * 0.1]


def labels(own: torch.Tensor, heard: list[torch.Tensor], kind: str) -> tuple[torch.Tensor, Task]:
    value = (own.flatten(1).mean(1) - own.mean()) / own.flatten(1).mean(1).std() + heard[0][:, 0]
    if kind == "binary":
        return (value > 0).float(), binary
    if kind == "multiclass":
        return (value > -0.7).long() + (value > 0.7).long(), Task("multiclass", 3)
    if kind == "multilabel":
        return torch.stack([value > 0, heard[0][:, 1] > 0], 1).float(), Task("multilabel", 2)
    return value * 10 + 100, Task("regression")


def small(name: str, **more: object) -> ModelConfig:
    if name == "paper":
        more = {"epochs": 200, **more}  # its rate is low, and 400 rows are four steps
    if name.startswith("torch"):
        more = {"lr": 0.1, **more}  # one layer, a hundred steps
    return ModelConfig(model=name, trees=40, tree_rate=0.2, **more)


KINDS = ("binary", "multiclass", "multilabel", "regression")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*NAMES, "torch.nn:Linear"])
def test_every_model_learns_an_easy_problem_and_comes_back_bit_for_bit(name, kind):
    own, heard = table()
    y, task = labels(own, heard, kind)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    model = fit(own, heard, y, task, small(name), rng(), cpu)
    scores = model.predict(own, heard)
    assert scores.dtype == torch.float32
    assert scores.shape == (y.shape if kind != "multiclass" else (400, 3))
    found = measure(scores, y, task)
    assert found["r2"] > 0.8 if kind == "regression" else found["accuracy"] > 0.88
    data = state.to_bytes(model)
    assert torch.equal(state.from_bytes(data).predict(own, heard), scores)
    if name != "auto":
        assert state.to_bytes(fit(own, heard, y, task, small(name), rng(), cpu)) == data
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("name", ["auto", "cnn", "paper", "linear", "mlp"])
def test_models_take_pictures_as_their_own_part(name):
    own = torch.randn(200, 1, 8, 8, generator=rng()) + torch.randn(200, 1, 1, 1, generator=rng(1))
    heard = [torch.randn(200, 4, generator=rng(2))]
    y, task = labels(own, heard, "multiclass")
    model = fit(own, heard, y, task, small(name, epochs=20, batch=50), rng(), cpu)
    scores = model.predict(own, heard)
    assert measure(scores, y, task)["accuracy"] > 0.8
    assert torch.equal(state.from_bytes(state.to_bytes(model)).predict(own, heard), scores)


@pytest.mark.parametrize("name", NAMES)
def test_a_host_may_have_only_labels_or_no_guests(name):
    own, heard = table()
    y, _ = labels(own, heard, "binary")
    for x, z in ((None, heard), (own, [])):
        scores = fit(x, z, y, binary, small(name), rng(), cpu).predict(x, z)
        assert measure(scores, y, binary)["accuracy"] > 0.65


def test_with_neither_own_columns_nor_letters_there_is_a_sentence():
    with pytest.raises(DataError, match="own columns or at least one guest"):
        fit(None, [], torch.ones(3), binary, ModelConfig(), rng(), cpu)
    with pytest.raises(DataError, match="at least one input column"):
        fit(torch.ones(3, 0), [], torch.ones(3), binary, ModelConfig(), rng(), cpu)


@pytest.mark.parametrize("name", NAMES)
def test_one_class_gives_that_class(name):
    own, heard = table(60)
    with pytest.warns(UserWarning, match="all 60 training rows have the same label"):
        model = fit(own, heard, torch.ones(60), binary, small(name), rng(), cpu)
    assert bool((model.predict(own, heard) > 0).all())
    assert torch.equal(state.from_bytes(state.to_bytes(model)).predict(own, heard), model.predict(own, heard))
    with pytest.warns(UserWarning, match="same label"):
        model = fit(own, heard, torch.full((60,), 2), Task("multiclass", 4), small(name), rng(), cpu)
    assert model.predict(own, heard).argmax(1).tolist() == [2] * 60
    model = fit(own, heard, torch.full((60,), 7.5), Task("regression"), small(name), rng(), cpu)
    assert model.predict(own, heard).tolist() == [7.5] * 60


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_class_constant_columns_and_few_rows_are_no_trouble(name):
    own, heard = table(30)
    own[:, 1] = 4.0
    y = (heard[0][:, 0] > 0).long()
    scores = fit(own, heard, y, Task("multiclass", 3), small(name), rng(), cpu).predict(own, heard)
    assert bool(scores.isfinite().all())
    assert 2 not in scores.argmax(1)
    both = torch.stack([y.float(), torch.ones(30)], 1)
    scores = fit(own, heard, both, Task("multilabel", 2), small(name), rng(), cpu).predict(own, heard)
    assert bool((scores[:, 1] > 0).all())
    two = fit(own[:2], [z[:2] for z in heard], torch.tensor([0.0, 1.0]), binary, small(name), rng(), cpu)
    assert bool(two.predict(own, heard).isfinite().all())


def test_linear_is_scikit_learns():
    own, heard = table()
    x = torch.cat([own, *heard], 1).double().numpy()
    x = (x - x.mean(0)) / x.std(0)
    for kind in ("binary", "multiclass"):
        y, task = labels(own, heard, kind)
        theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x, y.numpy()).decision_function(x)
        assert np.allclose(fit(own, heard, y, task, small("linear"), rng(), cpu).predict(own, heard), theirs, atol=0.02)
    y, task = labels(own, heard, "regression")
    assert np.allclose(fit(own, heard, y, task, small("linear"), rng(), cpu).predict(own, heard), Ridge(1.0).fit(x, y.numpy()).predict(x), atol=1e-3)


def test_balanced_classes_weigh_the_same():
    y = torch.tensor([1.0, 0.0, 0.0, 0.0])
    assert row_weights(y, binary, ModelConfig(class_weight="balanced"))[:, 0].tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    y = torch.tensor([0, 0, 0, 2])
    assert row_weights(y, Task("multiclass", 3), ModelConfig(class_weight="balanced"))[:, 0].tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])


@pytest.mark.parametrize("name", ["linear", "mlp", "gbdt", "paper"])
def test_class_weights_find_more_of_the_rare_class(name):
    own, heard = table()
    y = (heard[0][:, 0] + torch.randn(400, generator=rng(9)) > 1.8).float()
    plain, balanced = (fit(own, heard, y, binary, small(name, epochs=10, class_weight=w), rng(), cpu).predict(own, heard) for w in ("none", "balanced"))
    assert int((balanced > 0).sum()) > int((plain > 0).sum())


def test_auto_takes_the_best_on_rows_it_held_out_and_says_what_it_tried():
    own, heard = table(1500)
    product = ((own[:, 0] - 5) * heard[0][:, 0] > 0).float()
    model = fit(own, heard, product, binary, ModelConfig(), rng(), cpu)
    assert set(model.tried) == {"linear", "mlp", "gbdt"}
    assert model.name == min(model.tried, key=lambda name: model.tried[name]) != "linear"
    again = state.from_bytes(state.to_bytes(model))
    assert again.tried == model.tried
    assert again.name == model.name


def test_auto_holds_out_a_fifth_of_each_class():
    y = torch.cat([torch.zeros(90), torch.ones(10)])
    mask = held_out(y, binary, rng())
    assert (int(mask[:90].sum()), int(mask[90:].sum())) == (18, 2)


def test_auto_leaves_out_what_would_be_slow():
    many = Task("multiclass", 10)
    assert candidates(torch.zeros(100, 5), [], binary, ModelConfig()) == ["linear", "mlp", "gbdt"]
    assert candidates(torch.zeros(100, 2001), [], binary, ModelConfig()) == ["linear", "mlp"]
    assert candidates(torch.zeros(60_000, 100), [], many, ModelConfig()) == ["linear", "mlp"]
    assert candidates(torch.zeros(10_000, 1, 4, 4), [], many, ModelConfig()) == ["cnn"]
    assert candidates(torch.zeros(500, 1, 4, 4), [], many, ModelConfig()) == ["cnn", "linear", "mlp", "gbdt"]


def test_prediction_blocks_make_bits_independent_of_the_rows_that_follow():
    own, heard = table(4100)
    y, task = labels(own, heard, "binary")
    model = fit(own[:200], [z[:200] for z in heard], y[:200], task, small("mlp"), rng(), cpu)
    assert torch.equal(model.predict(own, heard)[:4096], model.predict(own[:4096], [z[:4096] for z in heard]))


def test_paper_keeps_what_it_heard_raw_and_squeezes_its_own_columns():
    own, heard = table()
    y, task = labels(own, heard, "regression")
    made = fit(own, heard, y, task, small("paper", epochs=1), rng(), cpu).scorer
    assert made.scaling is None
    assert made.squash
    assert made.local.outputs == 2
    assert made.head.spec["inputs"] == 2 + 3
    assert made.head.spec["hidden"] == [30]
    assert (made.low, made.low + made.width) == pytest.approx((float(y.min()), float(y.max())))


def test_nothing_is_warned_about_in_a_plain_fit():
    own, heard = table(100)
    y, task = labels(own, heard, "binary")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(own, heard, y, task, small("auto"), rng(), cpu).predict(own, heard)


def test_what_cannot_be_is_said_in_a_sentence():
    own, heard = table(10)
    y = (heard[0][:, 0] > 0).float()
    for task, wrong, words in (
        (binary, y * 2, "a binary label is 0 or 1; found 2.0"),
        (binary, y[:5], "5 labels for 10 rows"),
        (Task("multiclass", 2), torch.arange(10), "class numbers run from 0 to 9"),
        (Task("multilabel", 2), y, r"labels have shape \(10,\)"),
        (Task("regression"), y / 0, "10 labels are missing or infinite"),
    ):
        with pytest.raises(DataError, match=words):
            fit(own, heard, wrong, task, ModelConfig(), rng(), cpu)
    with pytest.raises(StudyError, match="model 'gbt' is unknown: use one of auto, linear"):
        fit(own, heard, y, binary, ModelConfig("gbt"), rng(), cpu)
    with pytest.raises(DataError, match="10, 9 rows"):
        fit(own, [heard[0][:9]], y, binary, ModelConfig(), rng(), cpu)
