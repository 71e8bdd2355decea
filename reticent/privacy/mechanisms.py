"""Mechanisms: the only makers of `Noised`. Each says in its docstring what it protects, and records what it did.

Adjacency is zero-out throughout: one person's row becomes blank at all parties, so a bound on a row's norm is the sensitivity.
"""

import torch
from torch import Tensor

from reticent.errors import PrivacyError
from reticent.message import Noised
from reticent.privacy.secret import Stream


def clip_rows(x: Tensor, clip: float) -> Tensor:
    """Every row scaled down to a norm of at most `clip`; a shorter one stays as it is."""
    norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    scaled: Tensor = x * (clip / norms.clamp_min(clip))
    return scaled


def gaussian_sum(rows: Tensor, clip: float, noise: float, stream: Stream) -> Noised:
    """The sum of rows, each clipped to norm `clip`, plus N(0, (noise · clip)²) on every number.

    Blanking one row moves the sum by at most `clip`: a Gaussian mechanism with multiplier `noise`."""
    _check(clip, noise)
    total = _bounded(rows, clip).sum(0)
    return Noised((total + noise * clip * stream.normal(total.shape)).float(), _gaussian(noise))


def gaussian_rows(rows: Tensor, clip: float, noise: float, stream: Stream) -> Noised:
    """Every row clipped to norm `clip`, plus N(0, (noise · clip)²) on every number.

    A row's own release moves by at most `clip` when it is blanked, and no other row's does, *if* what made the rows does
    not depend on the people in them: an encoder trained on them without noise breaks this, and then there is no ε."""
    _check(clip, noise)
    bounded = _bounded(rows, clip)
    return Noised((bounded + noise * clip * stream.normal(bounded.shape)).float(), _gaussian(noise))


def _bounded(rows: Tensor, clip: float) -> Tensor:
    """Clipped in double precision. A row with NaN or infinity is blank: it would move the release without bound, and an error would be a release too."""
    exact = rows.double()
    return clip_rows(torch.where(exact.isfinite().all(1, keepdim=True), exact, 0.0), clip)


def _gaussian(noise: float) -> dict[str, object]:
    return {"type": "GaussianDpEvent", "noise_multiplier": float(noise)}


def _check(clip: float, noise: float) -> None:
    if not (clip > 0 and noise > 0) or not torch.isfinite(torch.tensor([clip, noise])).all():
        raise PrivacyError(f"clip is {clip} and noise is {noise}: both must be positive and finite")
