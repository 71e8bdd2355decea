"""The estimators: scikit-learn's own checks without an exception, and what a user of several parties asks of them."""

import copy
import pickle
import time

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import reticent as rt
from reticent.errors import StudyError
from reticent.sklearn import VerticalClassifier, VerticalRegressor


def pair(rows: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    """A label that needs a number of one party and a town of another."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({"age": draw.normal(size=rows), "debt": draw.normal(size=rows), "town": draw.choice(["Bern", "Basel", "Chur"], rows)})
    return frame, np.where(frame["age"] + 2 * (frame["town"] == "Bern") > 0.7, "yes", "no")


@pytest.mark.filterwarnings("ignore")  # the checks provoke warnings on purpose
@pytest.mark.parametrize("estimator", [VerticalClassifier(), VerticalRegressor(), VerticalClassifier("combined")])
def test_scikit_learns_own_checks_pass_without_an_exception(estimator: VerticalClassifier) -> None:
    before = time.process_time()
    done = check_estimator(estimator, on_skip=None)
    assert len(done) > 45
    assert {check["check_name"] for check in done if check["status"] != "passed"} <= {"check_array_api_input"}  # asks for SCIPY_ARRAY_API=1 in the environment
    assert time.process_time() - before < 60


def test_a_small_fit_costs_little_beyond_its_trees() -> None:
    x, y = load_iris(return_X_y=True)
    VerticalClassifier(trees=1).fit(x, y)
    before = time.process_time()
    for _ in range(10):
        VerticalClassifier(trees=1).fit(x, y)
    assert (time.process_time() - before) / 10 < 0.1


def test_the_first_half_is_the_hosts_and_the_rest_one_guests() -> None:
    x, y = load_iris(return_X_y=True)
    assert VerticalClassifier(trees=2).fit(x[:, :3], y).parties_ == {"host": ["x0", "x1"], "guest": ["x2"]}
    assert VerticalClassifier(trees=2).fit(x[:, :1], y).parties_ == {"host": ["x0"]}


def test_columns_are_given_by_name_and_by_position() -> None:
    frame, y = pair()
    by_name = VerticalClassifier(columns={"shop": ["town"], "telco": ["debt"]}, trees=30).fit(frame, y)
    assert by_name.parties_ == {"host": ["age"], "shop": ["town"], "telco": ["debt"]}
    assert list(by_name.feature_names_in_) == ["age", "debt", "town"]
    by_place = VerticalClassifier(columns={"shop": [-1], "telco": [1]}, trees=30).fit(frame, y)
    assert (by_name.predict_proba(frame) == by_place.predict_proba(frame)).all()
    labels_only = VerticalClassifier(columns={"shop": [0, 1, 2]}, trees=30).fit(frame, y)
    assert labels_only.parties_["host"] == []
    assert labels_only.score(frame, y) > 0.9


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"shop": ["town", "towne"]}, "shop is given 'towne', and the table has 3 columns: age, debt, town"),
        ({"shop": [3]}, "shop is given 3, and the table has 3 columns"),
        ({"shop": ["town"], "telco": [2]}, '"town" is given to shop and to telco'),
        ({"shop": []}, "guest shop has no columns"),
    ],
)
def test_columns_that_are_not_there_are_named(columns: dict[str, list[str]], sentence: str) -> None:
    frame, y = pair()
    with pytest.raises(StudyError, match=sentence):
        VerticalClassifier(columns=columns).fit(frame, y)


def test_text_labels_and_text_columns_and_empty_cells_are_learnt() -> None:
    frame, y = pair()
    frame.loc[::10, "debt"] = np.nan
    frame.loc[5::20, "town"] = None
    model = VerticalClassifier(columns={"shop": ["town"]}).fit(frame[:80], y[:80])
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(frame[80:])) == {"no", "yes"}
    assert model.score(frame[80:], y[80:]) > 0.85
    alone = VerticalClassifier("solo", columns={"shop": ["town"]}).fit(frame[:80], y[:80])
    assert alone.score(frame[80:], y[80:]) < model.score(frame[80:], y[80:])


def test_one_class_is_said_for_every_row() -> None:
    with pytest.warns(UserWarning, match="same label"):
        model = VerticalClassifier().fit(np.eye(6), ["only"] * 6)
    assert set(model.predict(np.eye(6))) == {"only"}
    assert (model.predict_proba(np.eye(6)) == 1).all()


def test_it_is_the_run_that_fit_makes() -> None:
    frame, y = pair()
    bank, shop = frame[["age", "debt"]].assign(label=y), frame[["town"]]
    fed = rt.Federation.from_tables(host=bank, label="label", guests={"shop": shop}, test=0.5)
    run = rt.fit("fedonce", fed, model="gbdt", trees=30, dim=2)
    train = fed.train.numpy()
    model = VerticalClassifier(columns={"shop": ["town"]}, trees=30, dim=2).fit(frame[train], y[train])
    assert (model.decision_function(frame[~train]) == run.scores(fed.test).numpy()).all()


@pytest.mark.parametrize("algorithm", ["fedonce", "splitnn", "combined", "solo"])
def test_pickles_copies_and_clones_predict_the_same(algorithm: str) -> None:
    x, y = load_iris(return_X_y=True)
    model = VerticalClassifier(algorithm, model="linear", random_state=4).fit(x, y)
    said = model.decision_function(x)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(x, y)):
        assert (other.decision_function(x) == said).all()
    assert all(isinstance(known, bytes) for known in model.known_.values())
    with pytest.raises(NotFittedError):
        clone(model).predict(x)


def test_cross_validation_pipelines_and_grid_search_work() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    assert cross_val_score(VerticalClassifier(trees=20), x, y, cv=3, scoring="roc_auc").mean() > 0.96
    search = GridSearchCV(make_pipeline(StandardScaler(), VerticalClassifier(model="linear")), {"verticalclassifier__dim": [1, 8]}, cv=2).fit(x[:200], y[:200])
    assert search.best_score_ > 0.9
    assert set(search.best_params_) == {"verticalclassifier__dim"}


def test_a_regressor_over_two_parties_beats_the_host_alone() -> None:
    x, y = load_diabetes(return_X_y=True)
    both = cross_val_score(VerticalRegressor(trees=60), x, y, cv=3).mean()
    alone = cross_val_score(VerticalRegressor("solo", trees=60), x, y, cv=3).mean()
    assert both > 0.3
    assert both > alone


def test_the_seed_decides_and_the_caller_keeps_its_threads() -> None:
    x, y = load_iris(return_X_y=True)
    said = [VerticalClassifier(encoder="random", dim=2, trees=10, random_state=seed).fit(x, y).predict_proba(x) for seed in (0, 0, 1)]
    assert (said[0] == said[1]).all()
    assert (said[0] != said[2]).any()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        VerticalClassifier(trees=1, random_state=None).fit(x, y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_settings_of_the_algorithm_are_checked_by_it() -> None:
    x, y = load_iris(return_X_y=True)
    VerticalClassifier(config={"leaves": 4, "guest_epochs": 3}, trees=2).fit(x, y)
    with pytest.raises(StudyError, match='unknown key "leafs".*leaves'):
        VerticalClassifier(config={"leafs": 4}).fit(x, y)
    with pytest.raises(TypeError, match="sample_weight"):
        VerticalClassifier().fit(x, y, sample_weight=np.ones(len(y)))
