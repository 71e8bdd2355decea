"""Wavelet scattering (Bruna and Mallat, "Invariant scattering convolution networks", 2013): an encoder of pictures that nobody trains.

Two layers of Morlet wavelets, J = 2 scales and L = 8 orientations, the modulus after each, then a Gaussian low-pass read at every fourth
pixel: 81 channels (1 + 16 + 64) of ceil(h/4) x ceil(w/4). It reads no data, so it spends no privacy and couples no rows.

`scatter` computes it as matrix products, `by_fft` with complex FFTs; they agree to float32's rounding. The matrices are small because a
mirrored picture has a mirrored transform: rows are split into the four parts that a mirroring leaves alone or negates, and each linear
stage maps each part by itself, at a quarter of the work. The grids therefore lie mirrored about the picture's middle.
"""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from threading import local
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from reticent.errors import DataError
from reticent.learn.nets import in_blocks

CHANNELS = 81  # 1 + J L + L L, of each colour
STRIDE = 4  # 2^J
# Multiples of pi/8. Mirrored pairs side by side, as the matrix products need them; the channels come out by angle.
ANGLES = (1, 2, 3, -1, -2, -3, 0, 4)
BY_ANGLE = sorted(range(len(ANGLES)), key=lambda i: ANGLES[i])
AS_MATRICES = 48  # padded pixels a side: above, the matrices would be larger than the FFTs are slow
BLOCK = 32  # pictures computed at once on a CPU: what lies between two stages stays in its cache
MADE = 4096  # made pictures behind a basis that reads no data
MADE_SEED = 2013
BASIS_ROWS = 16_384  # training rows behind a basis of a party's own, evenly spaced: more would not move it

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """Where things lie along one side of a picture, in padded pixels; a grid of step s has the points s m + offset."""

    size: int

    @property
    def padded(self) -> int:  # at least a stride on either side
        return STRIDE * math.ceil((self.size + 2 * STRIDE) / STRIDE)

    @property
    def left(self) -> int:
        return (self.padded - self.size) // 2

    @property
    def coarse_offset(self) -> float:  # of the grid of step 2: between two pixels where the picture's middle is
        return 0.5 if self.size % 2 == 0 else 0.0

    @property
    def outputs(self) -> NDArray[np.float64]:  # every fourth pixel, mirrored about the picture's middle
        count = math.ceil(self.size / STRIDE)
        first = self.left + (self.size - 1 - STRIDE * (count - 1)) / 2
        return np.arange(count, dtype=np.float64) * STRIDE + first

    def reflected(self) -> list[int]:
        """Which pixel each padded one repeats: the edge itself is not doubled."""
        period = max(2 * (self.size - 1), 1)
        at = (np.arange(self.padded) - self.left) % period
        return [int(i) for i in np.minimum(at, period - at)] if self.size > 1 else [0] * self.padded

    def low_pass(self, step: int) -> Array:
        """[outputs, grid]: a periodic Gaussian of 0.8 * 2^(J-1) pixels; rows add up to 1, so a constant stays what it is."""
        grid = step * np.arange(self.padded // step) + (self.coarse_offset if step == 2 else 0.0)
        apart = self.outputs[:, None, None] - grid[:, None] - self.padded * np.arange(-2, 3)
        weights = np.exp(-0.5 * (apart / (0.8 * STRIDE / 2)) ** 2).sum(-1)
        return np.asarray(weights / weights.sum(1, keepdims=True))


def morlet(height: int, width: int, scale: int, angle: float) -> Array:
    """The spectrum [height, width] of a Morlet wavelet at 2^scale pixels, which is real: the wavelet is periodic, and symmetric up to conjugation."""
    sigma, frequency, slant = 0.8 * 2**scale, 0.75 * math.pi / 2**scale, 0.5
    copies = np.arange(-3, 3)
    y = (np.arange(height)[:, None] + height * copies).reshape(height, 1, len(copies), 1)
    x = (np.arange(width)[:, None] + width * copies).reshape(1, width, 1, len(copies))
    along, across = x * math.cos(angle) + y * math.sin(angle), -x * math.sin(angle) + y * math.cos(angle)
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2)) * slant / (2 * math.pi * sigma**2)
    wave = (envelope * np.exp(1j * frequency * along)).sum((2, 3))
    bump = envelope.sum((2, 3))
    return np.asarray(np.fft.fft2(wave - wave.sum() / bump.sum() * bump).real)  # less the bump: its mean is zero


@lru_cache(maxsize=8)
def spectra(height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """For a picture of height x width: the wavelets of scale 0 and 1 [L, padded, padded], and the phase that moves to the grid of step 2."""
    sides = Axis(height), Axis(width)
    made = [
        torch.from_numpy(np.stack([morlet(sides[0].padded, sides[1].padded, scale, ANGLES[i] * math.pi / 8) for i in range(len(ANGLES))])) for scale in (0, 1)
    ]
    phases = []
    for side in sides:
        turns = np.fft.fftfreq(side.padded) * side.coarse_offset
        phase = np.exp(2j * math.pi * turns)
        phase[side.padded // 2] = math.cos(math.pi * side.coarse_offset)  # the highest frequency has no direction
        phases.append(phase)
    return made[0], made[1], torch.from_numpy(phases[0][:, None] * phases[1])


def padded(x: Tensor) -> Tensor:
    """[..., h, w] reflected at its edges."""
    rows, places = (torch.tensor(Axis(size).reflected(), device=x.device) for size in x.shape[-2:])
    return x.index_select(-2, rows).index_select(-1, places)


def filtered(spectrum: Tensor, wavelets: Tensor, phase: Tensor | None) -> Tensor:
    """The complex convolution of [..., H, W] with each of [L, H, W]: [..., L, H, W], or half as many a side where a phase is given."""
    bands = spectrum.unsqueeze(-3) * wavelets
    if phase is not None:  # every second point: frequencies a half apart fall together
        bands = bands * phase
        height, width = bands.shape[-2:]
        bands = bands.view(*bands.shape[:-2], 2, height // 2, 2, width // 2).mean((-4, -2))
    z: Tensor = torch.fft.ifft2(bands)
    return z


def by_fft(x: Tensor) -> Tensor:
    """The scattering of pictures [n, h, w] with complex FFTs: [n, 81, h', w'], for any size; what `scatter` is tested against."""
    height, width = x.shape[1:]
    kind = torch.complex128 if x.dtype == torch.float64 else torch.complex64
    fine, coarse, phase = spectra(height, width)
    fine, coarse, phase = (fine.to(x.device, x.dtype), coarse.to(x.device, x.dtype), phase.to(x.device, kind))
    sides = Axis(height), Axis(width)
    low = {step: [torch.from_numpy(side.low_pass(step)).to(x.device, x.dtype) for side in sides] for step in (1, 2)}
    whole = padded(x)
    spectrum = torch.fft.fft2(whole)
    first = filtered(spectrum, fine, None).abs()[:, BY_ANGLE]
    broad = filtered(spectrum, coarse, phase).abs()[:, BY_ANGLE]
    second = filtered(torch.fft.fft2(first), coarse, phase).abs()[:, :, BY_ANGLE].flatten(1, 2)
    return torch.cat([low[u_step][0] @ u @ low[u_step][1].T for u, u_step in ((whole[:, None], 1), (first, 1), (broad, 2), (second, 2))], 1)


def butterflies(x: Tensor, other: Tensor) -> Tensor:
    """Sums and differences of the four mirrored parts [4, ...], in x; `other` is room of the same shape. Twice is four times the same."""
    half = x.view(2, 2, *x.shape[1:]), other.view(2, 2, *x.shape[1:])
    torch.add(half[0][0], half[0][1], out=half[1][0])
    torch.sub(half[0][0], half[0][1], out=half[1][1])
    torch.add(half[1][:, 0], half[1][:, 1], out=half[0][:, 0])
    torch.sub(half[1][:, 0], half[1][:, 1], out=half[0][:, 1])
    return x


def quarters(x: Tensor) -> Tensor:
    """[..., h, w], both even, as its four quarters mirrored onto the first: [4, ..., h w / 4]."""
    height, width = x.shape[-2] // 2, x.shape[-1] // 2
    upper, lower = x[..., :height, :], x[..., height:, :].flip(-2)
    parts = [part for half in (upper, lower) for part in (half[..., :width], half[..., width:].flip(-1))]
    return torch.stack([part.flatten(-2) for part in parts])


def whole(parts: Tensor, height: int, width: int) -> Tensor:
    """The inverse of `quarters`."""
    a, b, c, d = parts.reshape(*parts.shape[:-1], height // 2, width // 2)
    return torch.cat([torch.cat([a, b.flip(-1)], -1), torch.cat([c, d.flip(-1)], -1).flip(-2)], -2)


def stage(height: int, width: int, wavelets: Tensor, phase: Tensor | None, pad: bool) -> Tensor:
    """A linear stage as a matrix for each mirrored part: [4, inputs, 16 outputs], from the identity pushed through it.

    The 16: real parts, then imaginary ones, each the three angles' share that a flip keeps, the three angles' share that a flip
    negates, then angles 0 and 4, which have one share only.
    """
    inputs = height * width // 4
    eye = torch.eye(inputs, dtype=torch.float64).repeat(4, 1, 1)  # [part, inputs, pixels of a quarter]
    signs = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=torch.float64)  # [part, quarter]
    chosen = [0, 1, 2, 6, 7]
    blocks = []
    for part in range(4):
        pictures = whole(eye * signs[part][:, None, None] / 4, height, width)
        z = filtered(torch.fft.fft2(padded(pictures) if pad else pictures), wavelets[chosen], phase)
        shares = torch.einsum("pq,q...->p...", signs / 4, quarters(torch.view_as_real(z).movedim(-1, 0)))  # [part, 2, inputs, 5, outputs]
        real, imaginary = ([shares[part ^ kind, i] for kind in range(4)] for i in (0, 1))  # kind: bit 0 across, bit 1 up and down
        blocks.append(
            torch.cat(
                [
                    real[0][:, :3], real[3][:, :3], real[0][:, 3:],
                    imaginary[1][:, :3], imaginary[2][:, :3], imaginary[1][:, 3:4], imaginary[2][:, 4:],
                ], 1,
            ).flatten(1)
        )  # fmt: skip
    return torch.stack(blocks).float().contiguous()


@lru_cache(maxsize=8)
def matrices(height: int, width: int, device: torch.device) -> tuple[Tensor, ...]:
    """first and broad layer, second layer; the low-pass of the padded picture, of the fine grid and of the coarse one [4, quarter, outputs]."""
    fine, coarse, phase = spectra(height, width)
    sides = Axis(height), Axis(width)
    full = sides[0].padded, sides[1].padded
    low = [torch.from_numpy(np.einsum("ay,bx->abyx", *(side.low_pass(step) for side in sides))).flatten(0, 1) for step in (1, 2)]
    eye = torch.eye(height * width, dtype=torch.float64).view(-1, height, width)
    found = [
        stage(height, width, fine, None, True), stage(height, width, coarse, phase, True), stage(*full, coarse, phase, False),
        torch.einsum("oyx,iyx->io", low[0], padded(eye)), *(quarters(weights).transpose(1, 2) for weights in low),
    ]  # fmt: skip
    return tuple(made.float().contiguous().to(device) for made in found)


class Room(local):
    """Buffers of one thread, by name: taking them anew for each block would cost more than filling them."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, torch.device], Tensor] = {}

    def __call__(self, name: str, device: torch.device, *shape: int) -> Tensor:
        count = math.prod(shape)
        held = self.held.get((name, device))
        if held is None or held.numel() < count:
            held = self.held[name, device] = torch.empty(count, device=device)
        return held[:count].view(shape)


def moduli(parts: Tensor, matrix: Tensor, name: str, room: Room) -> Tensor:
    """|wavelets * u| for mirrored parts [4, rows, inputs]: quarters [4, rows, 8, outputs]."""
    rows, outputs = parts.shape[1], matrix.shape[2] // 16
    here, there = (room(f"{name} {i}", parts.device, 4, rows, 2, 8, outputs) for i in (0, 1))
    torch.bmm(parts, matrix, out=here.view(4, rows, -1))
    butterflies(here, there)
    for quarter in range(4):  # the share that a flip negates is added at an angle and taken away at its mirror image; the other way round in two quarters
        kept, negated, result = here[quarter][:, :, :3], here[quarter][:, :, 3:6], there[quarter]
        turned = quarter in (1, 2)
        torch.add(kept, negated, out=result[:, :, 3:6] if turned else result[:, :, :3])
        torch.sub(kept, negated, out=result[:, :, :3] if turned else result[:, :, 3:6])
        result[:, :, 6:] = here[quarter][:, :, 6:]
    there.mul_(there)
    made = room(f"{name} moduli", parts.device, 4, rows, 8, outputs)
    return torch.add(there[:, :, 0], there[:, :, 1], out=made).sqrt_()


def smoothed(u: Tensor, weights: Tensor) -> Tensor:
    """Quarters [4, rows, 8, inputs] low-passed: [rows, 8, outputs]."""
    flat = u.flatten(1, 2)
    made = flat[0] @ weights[0]
    for quarter in range(1, 4):
        made.addmm_(flat[quarter], weights[quarter])
    return made.view(u.shape[1], 8, -1)


def by_matrices(x: Tensor, room: Room) -> Tensor:
    """The scattering of pictures [n, h, w] with even sides: [n, 81, h', w']."""
    rows, height, width = x.shape
    fine, coarse, second, low, low_fine, low_coarse = matrices(height, width, x.device)
    parts = quarters(x)
    butterflies(parts, torch.empty_like(parts))
    first = moduli(parts, fine, "first", room)
    broad = moduli(parts, coarse, "broad", room)
    said = [x.flatten(1).mm(low)[:, None], smoothed(first, low_fine)[:, BY_ANGLE], smoothed(broad, low_coarse)[:, BY_ANGLE]]
    butterflies(first, room("first 0", x.device, *first.shape))  # what lay there is used up
    deep = smoothed(moduli(first.flatten(1, 2), second, "second", room), low_coarse)
    said.append(deep.view(rows, 8, 8, -1)[:, BY_ANGLE][:, :, BY_ANGLE].flatten(1, 2))
    return torch.cat(said, 1).view(rows, CHANNELS, math.ceil(height / STRIDE), math.ceil(width / STRIDE))


def scatter(pictures: Tensor) -> Tensor:
    """The scattering of pictures [n, c, h, w], each colour by itself: [n, 81 c, ceil(h/4), ceil(w/4)], float32, on their device.

    Pictures with an odd side, or beyond 40 pixels, go by FFT. On a CPU blocks are dealt to torch's threads, each computed by one of
    them: the bits do not depend on how many there are.
    """
    if pictures.dim() != 4 or 0 in pictures.shape[1:]:
        raise DataError(f"scattering was given rows of shape {tuple(pictures.shape[1:])}: it needs pictures, [channels, height, width]")
    rows, colours, height, width = pictures.shape
    x = pictures.reshape(rows * colours, height, width).float()
    small = height % 2 == width % 2 == 0 and max(Axis(height).padded, Axis(width).padded) <= AS_MATRICES
    made = x.new_empty(len(x), CHANNELS, math.ceil(height / STRIDE), math.ceil(width / STRIDE))
    size = BLOCK if x.device.type == "cpu" else 4096 if small else 1024
    threads, room = torch.get_num_threads(), Room()

    @torch.no_grad()
    def compute(at: int) -> None:
        made[at : at + size] = by_matrices(x[at : at + size], room) if small else by_fft(x[at : at + size])

    if small:
        matrices(height, width, x.device)  # made once, not by each thread
    if threads == 1 or x.device.type != "cpu":
        for at in range(0, len(x), size):
            compute(at)
    else:
        try:
            with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                list(pool.map(compute, range(0, len(x), size)))
        finally:
            torch.set_num_threads(threads)  # a thread's setting is also what later threads start from
    return made.view(rows, colours * CHANNELS, *made.shape[2:])


def normalised(scattered: Tensor) -> Tensor:
    """Groups of three channels to mean 0 and deviation 1, then the row to norm 1: each row by itself, so nothing is read from others. [n, numbers]."""
    flat = F.group_norm(scattered, scattered.shape[1] // 3, eps=1e-5).flatten(1)
    return F.normalize(flat, dim=1, eps=1e-6)


def features(pictures: Tensor, normal: bool = False) -> Tensor:
    """The whole scattering as columns, [n, 81 c h' w'], 1,296 for a quadrant of MNIST: what a host may keep of its own pictures.
    `normal`: normalised, as the made basis and private training take it."""
    return in_blocks(lambda block: normalised(scatter(block)) if normal else scatter(block).flatten(1), pictures)


def made_pictures(colours: int, height: int, width: int, count: int = MADE) -> Tensor:
    """Pink noise [count, colours, height, width] in [-1, 1], with amplitude 1/f as in photographs, from a fixed seed: nobody's data."""
    rng = torch.Generator().manual_seed(MADE_SEED)
    tall, wide = 2 * height, 2 * width  # cut from a larger one: noise is periodic, pictures are not
    f = torch.hypot(torch.fft.fftfreq(tall)[:, None], torch.fft.rfftfreq(wide)[None])
    f[0, 0] = math.inf
    drawn = torch.randn(count, colours, tall, wide, generator=rng)
    if colours > 1:  # colours of a picture are much alike
        drawn = drawn + 2 * torch.randn(count, 1, tall, wide, generator=rng)
    noise = torch.fft.irfft2(torch.fft.rfft2(drawn) / f, s=(tall, wide))[..., :height, :width]
    low, high = noise.amin((1, 2, 3), keepdim=True), noise.amax((1, 2, 3), keepdim=True)
    made: Tensor = 2 * (noise - low) / (high - low).clamp_min(1e-12) - 1
    return made


class Scattering:
    """features(x), less a centre, times a matrix: [n, dim]. A State."""

    def __init__(self, centre: Tensor, matrix: Tensor, normal: bool) -> None:
        self.centre, self.matrix, self.normal = centre, matrix, normal

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]

    def __call__(self, x: Tensor) -> Tensor:
        centre, matrix = self.centre.to(x.device), self.matrix.to(x.device)
        return in_blocks(lambda block: (features(block, self.normal) - centre) @ matrix, x)

    def to_arrays(self) -> Mapping[str, object]:
        return {"centre": self.centre, "matrix": self.matrix, "normal": self.normal}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:  # Any: what to_arrays gave
        return cls(arrays["centre"], arrays["matrix"], arrays["normal"])


def basis_rows(x: Tensor) -> Tensor:
    """At most 16,384 rows, evenly spaced."""
    return x if len(x) <= BASIS_ROWS else x[torch.linspace(0, len(x) - 1, BASIS_ROWS, dtype=torch.float64).round().long().to(x.device)]
