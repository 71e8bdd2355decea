"""Who holds which columns, and which rows train and test. Every draw is from the generator that is handed in."""

import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from reticent.data import encoding
from reticent.data.encoding import listed
from reticent.errors import DataError, StudyError

RANKED_ROWS = 20_000  # importance is read from at most so many rows
TRIES = 100  # draws of a dirichlet split until every party has a row


def equal(width: int, parties: int) -> list[list[int]]:
    """Contiguous columns; the first parties have one more where it does not come out even."""
    if parties < 1 or parties > width:
        raise StudyError(f"{width} columns cannot be dealt to {parties} parties: parties must be 1 to {width}")
    share, more = divmod(width, parties)
    starts = [i * share + min(i, more) for i in range(parties + 1)]
    return [list(range(a, b)) for a, b in itertools.pairwise(starts)]


def columns(names: Sequence[str], parts: Sequence[int] | Sequence[Sequence[str]]) -> list[list[str]]:
    """By widths, which must use up all columns in their order, or by lists of names, which may leave some out."""
    widths = [part for part in parts if isinstance(part, int)]
    if not parts or 0 < len(widths) < len(parts):
        raise StudyError('columns takes widths, as columns = [13, 10], or lists of names, as columns = [["age"], ["income", "debt"]]')
    if widths:
        if sum(widths) != len(names) or min(widths) < 1:
            raise StudyError(
                f"columns = {widths} adds up to {sum(widths)}, but the set has {len(names)} columns: every width must be at least 1, and all columns dealt"
            )
        ends = np.cumsum([0, *widths]).tolist()
        return [list(names[a:b]) for a, b in itertools.pairwise(ends)]
    lists = [[part] if isinstance(part, str) else list(part) for part in parts if not isinstance(part, int)]
    flat = [name for part in lists for name in part]
    unknown = [name for name in flat if name not in set(names)]
    if unknown:
        raise StudyError(f'columns: the set has no column "{unknown[0]}"; it has {listed(names)}')
    twice = [name for name in dict.fromkeys(flat) if flat.count(name) > 1]
    if twice:
        raise StudyError(f'columns: "{twice[0]}" is dealt {flat.count(twice[0])} times; a column belongs to one party')
    if not all(lists):
        raise StudyError("columns: one of the lists is empty; every party needs a column")
    return lists


def views(known: Mapping[str, Sequence[str]], chosen: Sequence[str] | None = None) -> list[list[str]]:
    """One party a view, in the order chosen; all of them if none is named."""
    if not known:
        raise StudyError('this set has no views: split it by "equal" or "columns"')
    chosen = list(known) if chosen is None else chosen
    for view in chosen:
        if view not in known:
            raise StudyError(f'views: the set has no view "{view}"; it has {listed(list(known))}')
    if len(set(chosen)) < len(chosen) or not chosen:
        raise StudyError(f"views = {list(chosen)}: name each view once, and at least one")
    return [list(known[view]) for view in chosen]


def quadrants(pictures: Tensor) -> list[Tensor]:
    """Four pieces, row-major: above left, above right, below left, below right."""
    _, _, height, width = pictures.shape
    if height < 2 or width < 2:
        raise StudyError(f"pictures of {height} × {width} have no quadrants")
    rows, places = (slice(0, height // 2), slice(height // 2, None)), (slice(0, width // 2), slice(width // 2, None))
    return [pictures[:, :, r, c].contiguous() for r in rows for c in places]


def halves(pictures: Tensor) -> list[Tensor]:
    """Left and right."""
    width = pictures.shape[3]
    if width < 2:
        raise StudyError(f"pictures of width {width} have no halves")
    return [pictures[..., : width // 2].contiguous(), pictures[..., width // 2 :].contiguous()]


def bands(pictures: Tensor, parties: int) -> list[Tensor]:
    """`equal` for pictures: contiguous rows of pixels."""
    return [pictures[:, :, part[0] : part[-1] + 1].contiguous() for part in equal(pictures.shape[2], parties)]


def importance(alpha: float, x: Tensor, y: Tensor, rng: torch.Generator) -> tuple[list[int], list[int]]:
    """FedOnce 5.5: the host's columns and the guest's, as many for both (the host one more of an odd number).

    The better half of the columns is dominant. The host gets a share `alpha` of those, drawn at random, the guest the others, and the rest
    fills both up. The paper leaves open how many are dominant; with a half, alpha = 0 and 1 are the two extremes. Ranked by LightGBM's gain, or by
    correlation where it is not installed; x [rows, columns] are the training rows.
    """
    if not 0 <= alpha <= 1:
        raise StudyError(f"alpha = {alpha}: a share between 0 and 1 is needed")
    width = x.shape[1]
    if width < 2:
        raise StudyError(f"split = importance deals to two parties, but the set has {width} columns")
    some = sample(len(x), min(len(x), RANKED_ROWS), rng)
    order = torch.argsort(gains(x[some], y[some]), descending=True, stable=True)
    dominant, others = order[: width // 2], order[width // 2 :]
    dominant, others = dominant[torch.randperm(len(dominant), generator=rng)], others[torch.randperm(len(others), generator=rng)]
    share = half_up(alpha * len(dominant))
    more = (width + 1) // 2 - share
    host = torch.cat([dominant[:share], others[:more]])
    guest = torch.cat([dominant[share:], others[more:]])
    return host.sort().values.tolist(), guest.sort().values.tolist()


def gains(x: Tensor, y: Tensor) -> Tensor:
    """One number a column: how much it tells of the label."""
    target = y.sum(1) if y.dim() == 2 else y
    several = not target.is_floating_point() and len(kinds(target)) > 2
    try:
        lightgbm: Any = importlib.import_module("lightgbm")  # Any: a library without types
    except ImportError:
        known = torch.nan_to_num(x.double()) - torch.nan_to_num(x.double()).mean(0)
        sides = torch.nn.functional.one_hot(target.long()).double() if several else target.double()[:, None]
        sides = sides - sides.mean(0)
        norms = known.norm(dim=0)[:, None] * sides.norm(dim=0)[None]
        told: Tensor = (known.T @ sides / norms.clamp_min(1e-12)).abs().sum(1)
        return told
    kind = {"objective": "multiclass", "num_class": int(target.max()) + 1} if several else {"objective": "regression"}
    settings = {**kind, "num_leaves": 31, "learning_rate": 0.1, "deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 0, "verbosity": -1}
    model = lightgbm.train(settings, lightgbm.Dataset(x.double().numpy(), target.numpy(), params={"verbosity": -1}), num_boost_round=20 if several else 50)
    return torch.from_numpy(np.asarray(model.feature_importance("gain"), np.float64).copy())


def raw(frame: pl.DataFrame) -> Tensor:
    """Columns as plain numbers, to rank them: text as the rank of its category, NaN where missing."""
    out = []
    for name in frame.columns:
        family = encoding.family_of(frame[name])
        text = family in ("text", "truth")
        ranks = encoding.texts(frame[name]).rank("dense").cast(pl.Float64).fill_null(float("nan")).to_numpy() if text else None
        out.append(ranks if ranks is not None else encoding.numbers(frame[name], family))
    return torch.from_numpy(np.stack(out, 1)) if out else torch.zeros(frame.height, 0, dtype=torch.float64)


def dirichlet(y: Tensor, parties: int, beta: float, rng: torch.Generator) -> list[Tensor]:
    """Rows of a horizontal split: of each class the parties get shares drawn from Dirichlet(beta); small beta, unlike parties."""
    if y.dim() != 1 or not (y == y.round()).all():
        raise StudyError("split = dirichlet deals rows by class, but these labels are no classes")
    if not beta > 0 or parties < 1 or parties > len(y):
        raise StudyError(f"beta = {beta} and parties = {parties}: beta must be above 0, and parties 1 to {len(y)}, the number of rows")
    draws = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))  # numpy draws tiny shares without underflow
    classes = [(y == kind).nonzero().flatten() for kind in kinds(y)]
    for _ in range(TRIES):
        shares: list[list[Tensor]] = [[] for _ in range(parties)]
        for rows in classes:
            rows = rows[torch.randperm(len(rows), generator=rng)]
            cuts = (np.cumsum(draws.dirichlet([beta] * parties))[:-1] * len(rows)).astype(int).tolist()
            for share, part in zip(shares, torch.tensor_split(rows, cuts), strict=True):
                share.append(part)
        dealt = [torch.cat(share).sort().values for share in shares]
        if all(len(part) for part in dealt):
            return dealt
    raise StudyError(f"beta = {beta} left one of {parties} parties without a row, {TRIES} times: take a larger beta or fewer parties")


def holdout(y: Tensor, share: float, rng: torch.Generator, stratify: bool = True) -> Tensor:
    """A mask of the test rows; by class, each with its share (largest remainders), as far as labels are classes."""
    if not 0 < share < 1:
        raise StudyError(f"test = {share}: a share of the rows between 0 and 1 is needed")
    n, size = len(y), half_up(share * len(y))
    if not 0 < size < n:
        raise StudyError(f"test = {share} of {n} rows leaves {n - size} for training and {size} for the test: both need at least one")
    strata = by_class(y, stratify)
    exact = [share * len(rows) for rows in strata]
    sizes = [int(value) for value in exact]
    for i in sorted(range(len(strata)), key=lambda i: sizes[i] - exact[i])[: size - sum(sizes)]:
        sizes[i] += 1
    test = torch.zeros(n, dtype=torch.bool)
    for rows, count in zip(strata, sizes, strict=True):
        test[rows[torch.randperm(len(rows), generator=rng)[: min(count, max(len(rows) - 1, 0)) if len(strata) > 1 else count]]] = True
    return test


def folds(y: Tensor, k: int, rng: torch.Generator, stratify: bool = True) -> Tensor:
    """The fold of each row, 0 to k - 1; sizes differ by one at most."""
    if not 2 <= k <= len(y):
        raise StudyError(f"folds = {k}: between 2 and {len(y)}, the number of rows, are possible")
    order = torch.cat([rows[torch.randperm(len(rows), generator=rng)] for rows in by_class(y, stratify)])
    fold = torch.empty(len(y), dtype=torch.int64)
    fold[order] = torch.arange(len(y)) % k  # dealt round, class after class
    return fold


def by_date(series: pl.Series, share: float) -> Tensor:
    """A mask of the latest rows. One day is never cut in two, so the share is met as nearly as that allows."""
    if not 0 < share < 1:
        raise StudyError(f"test = {share}: a share of the rows between 0 and 1 is needed")
    family = encoding.family_of(series)
    if family not in ("date", "number"):
        raise DataError(f'split_by = "{series.name}" holds {encoding.words[family]}: dates or numbers are needed')
    when = encoding.numbers(series, family)
    if np.isnan(when).any():
        raise DataError(f'split_by = "{series.name}" is empty in {int(np.isnan(when).sum())} rows: rows without a date are neither early nor late')
    when = np.floor(when) if family == "date" else when
    moments, counts = np.unique(when, return_counts=True)
    if len(moments) < 2:
        raise DataError(f'split_by = "{series.name}" has one value only: nothing comes later')
    later = np.cumsum(counts[::-1])[::-1][1:]  # rows at or after each moment but the first
    return torch.from_numpy(when >= moments[1:][np.abs(later - share * len(when)).argmin()])


def sample(n: int, rows: int, rng: torch.Generator) -> Tensor:
    """Sorted row numbers, without repeats."""
    if not 0 < rows <= n:
        raise StudyError(f"rows = {rows}: there are {n} training rows to draw from, so 1 to {n} are possible")
    return torch.randperm(n, generator=rng)[:rows].sort().values


def by_class(y: Tensor, stratify: bool) -> list[Tensor]:
    """Rows of each class; all together, where labels are no classes (a 2-D or a fractional y)."""
    if not stratify or y.dim() != 1 or (y.is_floating_point() and not ((y == 0) | (y == 1)).all()):
        return [torch.arange(len(y))]
    return [(y == kind).nonzero().flatten() for kind in kinds(y)]


def kinds(y: Tensor) -> list[float]:
    return sorted(set(y.tolist()))


def half_up(x: float) -> int:
    return int(x + 0.5 + 1e-9)  # 1105.5 is 1106, also where the product came out a hair below
