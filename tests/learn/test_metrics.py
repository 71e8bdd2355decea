import numpy as np
import pytest
import torch
from sklearn import metrics as theirs

from reticent.errors import DataError, StudyError
from reticent.learn import metrics
from reticent.learn.metrics import measure
from reticent.learn.task import Task

random = np.random.default_rng(0)
y = random.random(500) < 0.3
z = np.round(random.normal(size=500) + y, 1)  # with ties


def test_toy_with_exact_numbers():
    found = measure(torch.tensor([-2.0, 1.0, -1.0, 3.0]), torch.tensor([0.0, 0.0, 1.0, 1.0]), Task("binary"))
    assert (found["accuracy"], found["majority"], found["auc"], found["ks"]) == (0.5, 0.5, 0.75, 0.5)
    assert found["pr_auc"] == pytest.approx(0.5 + 0.5 * 2 / 3)


def test_binary_metrics_are_scikit_learns():
    found = measure(z, y, Task("binary"))
    chance = 1 / (1 + np.exp(-z))
    assert found["accuracy"] == theirs.accuracy_score(y, z > 0)
    assert found["auc"] == pytest.approx(theirs.roc_auc_score(y, z), abs=1e-12)
    assert found["pr_auc"] == pytest.approx(theirs.average_precision_score(y, z), abs=1e-12)
    assert found["log_loss"] == pytest.approx(theirs.log_loss(y, chance), abs=1e-12)
    false, true, _ = theirs.roc_curve(y, z, drop_intermediate=False)
    assert found["ks"] == pytest.approx((true - false).max(), abs=1e-12)
    assert found["majority"] == max(y.mean(), 1 - y.mean())


def test_the_interval_is_delongs_by_its_definition():
    above = (z[y][:, None] > z[~y]) + 0.5 * (z[y][:, None] == z[~y])
    deviation = np.sqrt(above.mean(1).var(ddof=1) / y.sum() + above.mean(0).var(ddof=1) / (~y).sum())
    assert metrics.auc_interval(z, y) == pytest.approx((above.mean() - 1.959964 * deviation, above.mean() + 1.959964 * deviation), abs=1e-6)


def test_the_interval_holds_the_truth_95_times_in_a_hundred():
    truth = 0.7602  # Phi(1 / sqrt 2)
    inside = 0
    for _ in range(400):
        labels = np.arange(120) < 50
        low, high = metrics.auc_interval(random.normal(size=120) + labels, labels)
        inside += low <= truth <= high
    assert 0.91 <= inside / 400 <= 0.98


def test_calibration_counts_each_row_once():
    error, table = metrics.calibration(np.array([0.05, 0.05, 0.95, 1.0]), np.array([False, True, True, True]))
    assert [bin["rows"] for bin in table] == [2, 2]
    assert error == pytest.approx(0.5 * 0.45 + 0.5 * 0.025)
    assert table[1] == {"low": 0.9, "high": 1.0, "rows": 2, "predicted": pytest.approx(0.975), "observed": 1.0}


def test_multiclass_metrics_are_scikit_learns():
    labels = random.integers(0, 4, 300)
    scores = random.normal(size=(300, 4)) + np.eye(4)[labels]
    found = measure(scores, labels, Task("multiclass", 4))
    chance = metrics.softmax(scores)
    assert found["auc"] == pytest.approx(theirs.roc_auc_score(labels, chance, multi_class="ovr"), abs=1e-12)
    assert found["log_loss"] == pytest.approx(theirs.log_loss(labels, chance), abs=1e-12)
    assert found["accuracy"] == theirs.accuracy_score(labels, scores.argmax(1))


def test_multilabel_metrics_are_means_over_labels():
    labels = random.random((200, 3)) < 0.4
    scores = random.normal(size=(200, 3)) + labels
    found = measure(scores, labels, Task("multilabel", 3))
    assert found["auc"] == pytest.approx(theirs.roc_auc_score(labels, scores), abs=1e-12)
    assert found["accuracy"] == pytest.approx(((scores > 0) == labels).mean())


def test_regression_metrics_are_scikit_learns():
    labels = random.normal(size=100)
    scores = labels + random.normal(size=100)
    found = measure(scores, labels, Task("regression"), (-2.0, 3.0))
    assert found["rmse"] == pytest.approx(theirs.root_mean_squared_error(labels, scores))
    assert found["r2"] == pytest.approx(theirs.r2_score(labels, scores))
    assert found["rmse_scaled"] == pytest.approx(found["rmse"] / 5)


def test_what_the_labels_do_not_define_is_left_out():
    found = measure(np.array([0.1, 2.0]), np.ones(2), Task("binary"))
    assert not {"auc", "auc_interval", "pr_auc", "ks"} & set(found)
    assert found["majority"] == 1.0
    assert "r2" not in measure(np.ones(2), np.ones(2), Task("regression"))
    assert "rmse_scaled" not in measure(np.ones(2), np.ones(2), Task("regression"), (1.0, 1.0))
    assert "auc" not in measure(np.eye(3), np.zeros(3), Task("multiclass", 3))
    assert measure(np.zeros(0), np.zeros(0), Task("binary")) == {}
    assert measure(np.array([1e4, -1e4]), np.array([0, 1]), Task("binary"))["log_loss"] == 1e4


def test_shapes_that_do_not_fit_are_said():
    with pytest.raises(DataError, match=r"scores of shape \(3,\) do not fit 2 binary labels"):
        measure(np.zeros(3), np.zeros(2), Task("binary"))
    with pytest.raises(StudyError, match="cannot have 3 outputs"):
        Task("binary", 3)
    with pytest.raises(StudyError, match="unknown"):
        Task("ranking")
