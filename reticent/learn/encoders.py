"""What a guest says about its rows: d numbers each, computed from its own columns alone. One interface, by name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from reticent.errors import DataError, PrivacyError, StudyError
from reticent.learn import nets, scattering
from reticent.learn.fourier import Fourier
from reticent.learn.nat import train_nat
from reticent.learn.nets import BLOCK, Net, in_blocks
from reticent.learn.training import Progress, Schedule, train

LEARNT = ("random-net", "nat", "autoencoder")  # those that are nets: a party may bring its own
NAMES = ("auto", "rank-pca", "pca", "identity", "random", *LEARNT, "scattering", "scattering-made", "fourier")
READ_NO_DATA = ("identity", "random", "scattering-made", "fourier")  # the same for any rows of the same shape
QUANTILES = 1024  # of a column, kept to rank later rows by


@dataclass(frozen=True)
class EncoderConfig:
    name: str = "auto"  # one of NAMES; auto: rank-pca for columns, scattering for pictures
    dim: int = 8  # d: numbers a row; identity and the PCAs give no more than there are columns
    hidden: tuple[int, ...] = (30, 30)  # hidden layers on tables; pictures take the paper's CNN0
    epochs: int = 30  # T_j; this and the next four: Table 5's row for covtype; for pictures it has 100 epochs, lr 1e-4, f = 3
    lr: float = 1e-3  # eta
    weight_decay: float = 1e-5  # lambda
    batch: int = 100  # b
    frequency: int = 1  # f: nat permutes its targets in every f-th epoch
    module: str = ""  # a party's own nn.Module, "package.module:Class", built as Class(inputs, dim), instead of the net above
    seed: int = 0  # of fourier's features: public


class Encoder(Protocol):
    """x -> [n, dim] float32 on x's device; a State."""

    @property
    def dim(self) -> int: ...

    def __call__(self, x: Tensor) -> Tensor: ...

    def to_arrays(self) -> Mapping[str, object]: ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self: ...  # Any: what to_arrays gave


class Projection:
    """(x - centre) matrix, on flattened rows; without a matrix, the first columns as they are."""

    def __init__(self, dim: int, centre: Tensor | None, matrix: Tensor | None) -> None:
        self.dim, self.centre, self.matrix = dim, centre, matrix

    def __call__(self, x: Tensor) -> Tensor:
        return in_blocks(self.block, x)

    def block(self, x: Tensor) -> Tensor:
        x = x.reshape(len(x), math.prod(x.shape[1:])).float()
        if self.centre is not None:
            x = x - self.centre.to(x.device)
        return x @ self.matrix.to(x.device) if self.matrix is not None else x[:, : self.dim]

    def to_arrays(self) -> Mapping[str, object]:
        return {"dim": self.dim, "centre": self.centre, "matrix": self.matrix}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["dim"], arrays["centre"], arrays["matrix"])


class Ranked:
    """Columns mapped to normal scores by their ranks among the training rows, then projected; two-valued columns stay as they are."""

    def __init__(self, grid: Tensor, plain: Tensor, projection: Projection) -> None:
        self.grid, self.plain, self.projection = grid, plain, projection  # [columns, quantiles] ascending; [columns] bool

    @classmethod
    def of(cls, x: Tensor, dim: int) -> Self:
        """From training rows [n, columns]. What is kept of a column: at most 1,024 of its values."""
        ordered = x.sort(0).values
        chosen = torch.linspace(0, len(x) - 1, min(len(x), QUANTILES), dtype=torch.float64).round().long().to(x.device)
        steps = (ordered[1:] != ordered[:-1]).sum(0)
        made = cls(ordered[chosen].T.contiguous(), steps <= 1, Projection(dim, None, None))
        made.projection = pca(in_blocks(made.scores, x), dim)
        return made

    @property
    def dim(self) -> int:
        return self.projection.dim

    def __call__(self, x: Tensor) -> Tensor:
        return in_blocks(lambda block: self.projection.block(self.scores(block)), x.float())

    def scores(self, x: Tensor) -> Tensor:
        grid, values = self.grid.to(x.device), x.T.contiguous()
        below, not_above = torch.searchsorted(grid, values), torch.searchsorted(grid, values, right=True)
        share = (below + not_above + 1).double() / (2 * (grid.shape[1] + 1))  # ties take the middle of their ranks
        scored = torch.special.ndtri(share.clamp(1 / (grid.shape[1] + 1), 1 - 1 / (grid.shape[1] + 1))).float()
        return torch.where(self.plain.to(x.device), x, scored.T)

    def to_arrays(self) -> Mapping[str, object]:
        return {"grid": self.grid, "plain": self.plain, "projection": self.projection}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["grid"], arrays["plain"], arrays["projection"])


class Learnt:
    """A network's outputs, without dropout."""

    def __init__(self, net: Net) -> None:
        self.net = net.eval()

    @property
    def dim(self) -> int:
        return self.net.outputs

    def __call__(self, x: Tensor) -> Tensor:
        self.net.to(x.device).eval()
        with torch.no_grad():
            return in_blocks(self.net, x.float())

    def to_arrays(self) -> Mapping[str, object]:
        return {"net": self.net}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["net"])


def width(config: EncoderConfig, columns: int) -> int:
    """How many numbers a row the encoder will give for `columns` encoded columns (or pixels), known before anything is fitted."""
    return min(config.dim, columns) if config.name in ("auto", "identity", "pca", "rank-pca") else config.dim


def fit(
    x: Tensor, config: EncoderConfig, rng: torch.Generator, device: torch.device, mechanism: object | None = None, progress: Progress | None = None
) -> Encoder:
    """Fits the named encoder on x: [n, columns], or pictures [n, channels, height, width]. Only `rng` is drawn from."""
    if config.name not in NAMES:
        raise StudyError(f"encoder {config.name!r} is unknown: use one of {', '.join(NAMES)}")
    if config.name == "auto":  # a rule, fixed on other sets: nothing is looked at but whether the rows are pictures
        config = replace(config, name="scattering" if x.dim() == 4 else "rank-pca")
    if mechanism is not None:
        raise PrivacyError(
            f"encoder {config.name!r} has no private form: it would read rows that nobody accounts for; leave [privacy] out, or use another encoder"
        )
    if config.dim < 1:
        raise StudyError(f"encoder dim is {config.dim}: it must be 1 or more")
    if len(x) == 0 or math.prod(x.shape[1:]) == 0:
        raise DataError(f"an encoder was given a table of shape {tuple(x.shape)}: it needs at least one row and one column")
    x = x.to(device=device, dtype=torch.float32)
    columns = math.prod(x.shape[1:])
    if config.name == "identity":
        return Projection(width(config, columns), None, None)
    if config.name == "rank-pca" and x.dim() == 2:  # pixels are on one scale already
        return Ranked.of(x, width(config, columns))
    if config.name in ("pca", "rank-pca"):
        return pca(x.flatten(1), width(config, columns))
    if config.name == "random":
        return Projection(config.dim, None, orthonormal(columns, config.dim, rng).to(device))
    if config.name == "scattering" and x.dim() == 4:
        return scattered(x, config.dim)
    if config.name == "scattering":  # a table has no wavelets
        return Ranked.of(x, config.dim)
    if config.name == "scattering-made" and x.dim() == 4:
        return scattered_made(x, config.dim)
    if config.name in ("fourier", "scattering-made"):  # the counterpart on a table: it reads no data either
        return Fourier(columns, config.dim, config.seed)
    net = local(x, config, config.dim, rng, "linear" if config.name == "autoencoder" else "tanh")
    schedule = Schedule(config.epochs, config.batch, config.lr, config.weight_decay)
    if config.name == "nat":
        train_nat(net, x, schedule, config.frequency, rng, device, progress)
    elif config.name == "autoencoder":
        train_autoencoder(net, x, config, schedule, rng, device, progress)
    return Learnt(net.to(device))


def local(x: Tensor, config: EncoderConfig, outputs: int, rng: torch.Generator, final: nets.Final) -> Net:
    """The guest's net for rows like x: the party's own module, CNN0 for pictures, FC(hidden) for tables."""
    shape = tuple(x.shape[1:])
    if config.module:
        return nets.own(config.module, (shape[0], shape[1], shape[2]) if len(shape) == 3 else shape[0], outputs, rng)
    if len(shape) == 3:
        return nets.cnn0(shape[0], shape[1], shape[2], outputs, rng)
    return nets.mlp(shape[0], config.hidden, outputs, rng, final)


def pca(x: Tensor, dim: int) -> Projection:
    """The leading principal components, in float64, each with its largest weight positive; zeros where the rows vary no more."""
    rows, columns = x.shape
    centre = sum((x[at : at + BLOCK].double().sum(0) for at in range(0, rows, BLOCK)), torch.zeros(columns, dtype=torch.float64, device=x.device)) / rows
    if rows < columns:  # wide: the same directions from the smaller matrix
        apart = x.double() - centre
        values, vectors = torch.linalg.eigh(apart @ apart.T)
        vectors = apart.T @ vectors
        vectors = vectors / vectors.norm(dim=0).clamp_min(1e-300)
    else:
        spread = torch.zeros(columns, columns, dtype=torch.float64, device=x.device)
        for at in range(0, rows, BLOCK):
            apart = x[at : at + BLOCK].double() - centre
            spread += apart.T @ apart
        values, vectors = torch.linalg.eigh(spread)
    kept = vectors.flip(1)[:, :dim]
    real = values.flip(0)[:dim] > 1e-10 * values.abs().max().clamp_min(1e-300)  # float32 rows: below is rounding
    if kept.shape[1] < dim:  # fewer rows than components
        kept, real = torch.nn.functional.pad(kept, (0, dim - kept.shape[1])), torch.nn.functional.pad(real, (0, dim - len(real)))
    largest = kept.gather(0, kept.abs().argmax(0, keepdim=True))
    kept = torch.where(real, kept * torch.where(largest < 0, -1.0, 1.0), torch.zeros_like(kept))
    return Projection(dim, centre.float(), kept.float().contiguous())  # in the order in which it is kept: another one changes the last bits


def scattered(x: Tensor, dim: int) -> scattering.Scattering:
    """Pictures' scattering, projected on its principal components among these rows."""
    found = pca(scattering.features(scattering.basis_rows(x)), dim)
    return projected(found, normal=False)


def scattered_made(x: Tensor, dim: int) -> scattering.Scattering:
    """Pictures' normalised scattering, projected on the principal components of made pictures of x's shape: of x, nothing else is read."""
    made = scattering.made_pictures(x.shape[1], x.shape[2], x.shape[3]).to(x.device)
    return projected(pca(scattering.features(made, normal=True), dim), normal=True)


def projected(found: Projection, normal: bool) -> scattering.Scattering:
    if found.centre is None or found.matrix is None:
        raise DataError("a projection without a matrix was to follow the scattering: it must come from pca")
    return scattering.Scattering(found.centre, found.matrix, normal)


def orthonormal(columns: int, dim: int, rng: torch.Generator) -> Tensor:
    """A random [columns, dim] matrix with orthonormal columns (rows, where dim is the larger)."""
    drawn = torch.randn(max(columns, dim), min(columns, dim), generator=rng, dtype=torch.float64)
    q, r = torch.linalg.qr(drawn)
    q = q * torch.where(r.diagonal() < 0, -1.0, 1.0)  # so that it does not depend on LAPACK's choice of signs
    made: Tensor = q if columns >= dim else q.T
    return made.float().contiguous()


def train_autoencoder(
    net: Net, x: Tensor, config: EncoderConfig, schedule: Schedule, rng: torch.Generator, device: torch.device, progress: Progress | None
) -> None:
    """Trains net so that a mirrored decoder (128 units for pictures), thrown away afterwards, can restore the row."""
    flat = x.flatten(1)
    decoder = nets.mlp(config.dim, (128,) if x.dim() == 4 else config.hidden[::-1], flat.shape[1], rng).to(device)
    net.to(device).train()

    def loss(rows: Tensor, epoch: int) -> Tensor:
        return (decoder(net(x[rows])) - flat[rows]).square().mean()

    train([*net.parameters(), *decoder.parameters()], loss, len(x), schedule, rng, device, progress)
