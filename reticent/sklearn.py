"""Learning over simulated parties as scikit-learn estimators: for cross-validation, pipelines and grid search.

    VerticalClassifier("fedonce", columns={"shop": ["basket", "visits"]}, dim=4).fit(X, y).predict_proba(X)

Each fit is a run of its own, in process; what its parties know afterwards is kept as the bytes of their snapshots. Sample weights
are not supported: `fit` takes X and y.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from reticent import api, study
from reticent import plan as plans
from reticent import run as runs
from reticent.data.federated import HOST
from reticent.data.labels import Labels
from reticent.data.sets import Set
from reticent.data.simulated import IN_MEMORY, Federation, as_polars, by_columns
from reticent.data.tables import Table
from reticent.errors import DataError, StudyError
from reticent.learn.task import Task

Array = NDArray[Any]  # Any: numbers or texts
SEEDS = 2**31 - 1


def seed_of(random_state: Any) -> int:  # Any: a whole number, a RandomState, or None
    """A whole number is the study's seed; None asks the operating system."""
    if random_state is None:
        return secrets.randbelow(SEEDS)
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    rng = check_random_state(random_state)
    return int(rng.randint(SEEDS))


def shared(columns: Mapping[str, Sequence[str | int]] | None, names: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """The host's columns and the guests'. None: the first half is the host's, the rest one guest's, a single one the host's alone."""
    if columns is None:
        half = (len(names) + 1) // 2
        return list(names[:half]), {"guest": list(names[half:])} if half < len(names) else {}
    taken: dict[str, str] = {}
    guests: dict[str, list[str]] = {}
    for guest, wanted in columns.items():
        guests[guest] = []
        for said in [wanted] if isinstance(wanted, str | int) else wanted:
            if isinstance(said, str) and said in names:
                name = said
            elif not isinstance(said, str) and -len(names) <= int(said) < len(names):
                name = names[int(said)]
            else:
                raise StudyError(
                    f"columns: {guest} is given {said!r}, and the table has {len(names)} columns: {', '.join(names[:8])}{', …' * (len(names) > 8)}"
                )
            if name in taken:
                raise StudyError(f'columns: "{name}" is given to {taken[name]} and to {guest}; a column belongs to one party')
            taken[name] = guest
            guests[guest].append(name)
    return [name for name in names if name not in taken], guests


@contextmanager
def one_thread() -> Iterator[None]:
    """A run computes with one thread, for the sake of its last bits; afterwards the caller has as many as before."""
    before = torch.get_num_threads()
    with threadpool_limits(1):
        try:
            yield
        finally:
            torch.set_num_threads(before)


class Vertical(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share.

    columns: guests' columns by guest, as names or positions; the host holds the rest. `config`: further settings of the algorithm's Config.
    Columns of a DataFrame may hold numbers, text, truth values and dates; empty cells are allowed.
    """

    def __init__(
        self,
        algorithm: Any = "fedonce",  # Any: a name, or a module or class with Config, Guest and Host
        *,
        columns: Mapping[str, Sequence[str | int]] | None = None,
        model: str = "gbdt",
        dim: int = 8,
        encoder: str = "auto",
        trees: int = 200,
        config: Mapping[str, Any] | None = None,  # Any: values of the Config
        random_state: Any = 0,  # Any: as everywhere in scikit-learn
    ) -> None:
        self.algorithm = algorithm
        self.columns = columns
        self.model = model
        self.dim = dim
        self.encoder = encoder
        self.trees = trees
        self.config = config
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:  # Any: scikit-learn's Tags
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _table(self, X: Any, reset: bool) -> Table:  # Any: an array or a DataFrame
        """X as one table; its columns are named as scikit-learn names features."""
        typed = hasattr(X, "columns") and hasattr(X, "dtypes")
        try:
            frame = as_polars(X, "X") if typed else None
        except DataError as error:
            raise ValueError(str(error)) from error
        if frame is not None and frame.height and frame.width:  # kinds of columns are kept, which an array would lose
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            checked = validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", ensure_min_features=1)
            frame = pl.DataFrame(np.asarray(checked), schema=self._names())
        return Table(frame.rename(dict(zip(frame.columns, self._names()))), rows=frame.height)

    def _names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if named is None else [str(name) for name in named]

    def _learn(self, table: Table, labels: Labels) -> None:
        """Runs the algorithm once; keeps what its parties know."""
        own, guests = shared(self.columns, table.names)
        name, chosen = api.named(self.algorithm)
        seed = seed_of(self.random_state)
        said = {"model": self.model, "dim": self.dim, "encoder": self.encoder, "trees": self.trees}
        wanted = {**study.fields_shared(chosen.Config, said), **(self.config or {})}
        fed = self._dealt(table, labels, own, guests, seed)
        made = api.study_of(name, fed, seed, "inprocess", wanted)
        with one_thread():
            run = self._begin(made, fed)
            try:
                run.federation.fit()
                known = run.known()
            finally:
                run.abandon()
        self.parties_ = {HOST: own, **guests}  # whose columns are whose
        self.known_ = known  # each party's snapshot: bytes
        self._study = made.model_dump(mode="json", exclude_none=True, exclude={"rows"})
        self._task = (labels.task.kind, labels.task.outputs)

    def _dealt(self, table: Table, labels: Labels, own: Sequence[str], guests: Mapping[str, Sequence[str]], seed: int) -> Federation:
        nobody = torch.zeros(len(table), dtype=torch.bool)  # all rows train
        found = Set(IN_MEMORY, table, labels, nobody, {}, True, "", "the user's", "")
        return by_columns(found, own, guests, None, seed, None, None)

    def _begin(self, wanted: study.Study, fed: Federation) -> runs.Run:
        _, chosen = api.named(self.algorithm)
        return runs.begin(plans.make(wanted, algorithm=chosen, found=fed.found), runs.Options())

    def _scores(self, X: Any) -> torch.Tensor:  # Any: an array or a DataFrame
        """Raw scores of rows that nobody has seen: the parties as they were, with these rows as their tables."""
        check_is_fitted(self, "known_")
        table = self._table(X, reset=False)
        kind, outputs = self._task
        y = torch.zeros(len(table), dtype=torch.int64 if kind == "multiclass" else torch.float32)
        wanted = study.study_from(self._study)
        guests = {name: part for name, part in self.parties_.items() if name != HOST}
        fed = self._dealt(table, Labels(y, Task(kind, outputs)), self.parties_[HOST], guests, wanted.study.seed)
        with one_thread():
            run = self._begin(wanted, fed)
            try:
                run.bring_back(self.known_)
                return run.scores(torch.arange(len(table)))
            finally:
                run.abandon()


class VerticalClassifier(ClassifierMixin, Vertical):  # type: ignore[misc]  # as above
    """A classifier whose columns belong to several parties; two classes or more, of any kind of label."""

    def fit(self, X: Any, y: Any) -> Self:  # Any: arrays or DataFrames
        table = self._table(X, reset=True)
        y = targets(y, len(table))
        check_classification_targets(y)
        self.classes_, which = np.unique(y, return_inverse=True)
        several = len(self.classes_) > 2
        numbers = torch.from_numpy(which.astype(np.int64))
        task = Task("multiclass", len(self.classes_)) if several else Task("binary", 1)
        self._learn(table, Labels(numbers if several else numbers.float(), task, tuple(range(max(len(self.classes_), 1)))))
        return self

    def decision_function(self, X: Any) -> Array:  # Any: as above
        """Raw scores: one number a row where there are two classes, else one a class."""
        scores: Array = self._scores(X).numpy().astype(np.float64)
        return scores

    def predict_proba(self, X: Any) -> Array:  # Any: as above
        scores = self._scores(X).double()
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        chance: Array = runs.chances(scores, self._task[0]).numpy()
        return chance

    def predict(self, X: Any) -> Array:  # Any: as above
        scores = self.decision_function(X)
        which = scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(np.int64)
        found: Array = self.classes_[np.minimum(which, len(self.classes_) - 1)]
        return found


class VerticalRegressor(RegressorMixin, Vertical):  # type: ignore[misc]  # as above
    """A regressor whose columns belong to several parties."""

    def fit(self, X: Any, y: Any) -> Self:  # Any: arrays or DataFrames
        table = self._table(X, reset=True)
        y = check_array(targets(y, len(table)), ensure_2d=False, dtype=np.float64, input_name="y")
        self._learn(table, Labels(torch.from_numpy(y.astype(np.float32)), Task("regression", 1)))
        return self

    def predict(self, X: Any) -> Array:  # Any: as above
        numbers: Array = self._scores(X).numpy().astype(np.float64)
        return numbers


def targets(y: Any, rows: int) -> Array:  # Any: an array, a list or a Series
    """One label a row."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    column: Array = column_or_1d(y, warn=True)
    if len(column) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {rows} rows and y {len(column)}")
    return column
