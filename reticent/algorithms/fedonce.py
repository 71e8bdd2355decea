"""FedOnce-L0: each guest learns a representation without labels and sends it once; the host trains one model on all of them.

Wu, Li, He, "Practical Vertical Federated Learning with Unsupervised Representation Learning", IEEE Transactions on Big Data,
2022: Algorithm 1 (training, without lines 10-13 and 25-28, which are L1's) and Algorithm 2 (prediction).
Rounds: 1 to fit, 1 to predict. Letters a guest: 1 and 1.

Deviations, each with its reason and its figure in docs/papers/fedonce.md:
- `encoder` is any unsupervised one; by default PCA of the columns' normal scores, and of the wavelet scattering where there are pictures:
  NAT, the paper's, is no better and costs a thousand times more.
- `model` is any learner, picked by validation by default: boosted trees on [own columns | what was heard] beat the paper's
  net on tables. `model = "paper"` is the paper's: own columns squeezed to d numbers, raw Z, one aggregation net.
- the host standardises what it hears (not in `paper`).
- `letters` may have 16, 8, 4 or 2 bits a number: packed levels, each column cut by the statistics of the sender's own training
  rows. `letter_bytes` says instead how long a row may be: two numbers a byte as far as there are columns, and then more bits.
- a guest that is not there: the paper puts zeros in its place (Appendix C, `absent = "zeros"`). By default the host, which keeps
  what it heard, trains without it; at prediction one model for each pattern of absence, made when first needed and kept. Nothing is asked.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor

from reticent import packing
from reticent import rows as row_sets
from reticent.errors import LetterError, PartyError, StudyError
from reticent.federation import Guests
from reticent.federation import Host as BaseHost
from reticent.learn import absent, encoders, models
from reticent.message import Array, Message, Numbers, RowSet
from reticent.party import Guest as BaseGuest
from reticent.party import answers

Levels = Annotated[Tensor, Array((torch.uint8,), 2)]
Column = Annotated[Tensor, Array((torch.float32,), 1)]


@dataclass(frozen=True)
class Config(models.ModelConfig):
    dim: int = 8  # d: numbers a guest sends for a row (PCA: no more than it has columns)
    encoder: str = "auto"  # how a guest makes them, f_θj: rank-pca for columns, scattering for pictures; or pca, nat, autoencoder, … (learn/encoders.py)
    letters: packing.Letters = "float32"  # how they travel: int8, int4 and int2 are levels, packed
    letter_bytes: int | None = None  # bytes a guest may send for a row: where said, dim and letters follow from it
    guest_epochs: int = 40  # T_j, of encoders that are trained
    guest_lr: float = 1e-3  # η, a guest's
    guest_batch: int = 100  # b, a guest's
    guest_hidden: tuple[int, ...] = (30, 30)  # hidden layers of f_θj on tables; pictures take CNN0
    guest_weight_decay: float = 0.0  # λ, a guest's
    frequency: int = 1  # f: NAT assigns targets every f epochs
    within: float | None = None  # t_r, seconds: who answers later is laggy, and missing; None: the host waits
    quorum: int | None = None  # guests that are enough to train; then whoever answers is enough to predict. None: all must answer, always
    absent: Literal["refit", "zeros"] = "refit"  # a missing guest: a model without it, or zeros for its d numbers


class Learn(Message):
    """Which rows train: a bit mask. Reveals which people the host trains on; where the split is stratified, a little of the labels' counts."""

    rows: RowSet


class Rows(Message):
    """Which rows to represent. Reveals whom the host wants a prediction for."""

    rows: RowSet


class Representation(Message):
    """R_j, d numbers for each row, as they are or as levels of few bits with each column's scale: reveals to the host what they tell of the guest's columns. No noise: with PCA and d as large as the columns are many, that is everything."""

    z: Numbers | None = None
    levels: Levels | None = None  # or these three
    low: Column | None = None
    step: Column | None = None


class Guest(BaseGuest[Config]):
    @answers
    def learn(self, ask: Learn) -> Representation:  # lines 2-17
        c, party = self.config, self.party
        x = party.table.fit(row_sets.unpack(ask.rows, len(party.table))).to(party.device)
        if party.module and c.encoder not in encoders.LEARNT:
            raise PartyError(
                f'{party.name} brings module = "{party.module}", but encoder = "{c.encoder}" trains no net: choose one of {", ".join(encoders.LEARNT)}'
            )
        how = encoders.EncoderConfig(
            name=c.encoder, dim=self._dim(x), hidden=c.guest_hidden, epochs=c.guest_epochs, lr=c.guest_lr, weight_decay=c.guest_weight_decay,
            batch=c.guest_batch, frequency=c.frequency, module=party.module,
        )  # fmt: skip
        self.encoder = encoders.fit(x, how, party.rng, party.device, progress=party.epoch)  # lines 3-15
        z = self.encoder(x)  # line 16
        letters = packing.packed_letters(packing.letters_within(c.letter_bytes, z.shape[1], c.letters))
        self.scale = packing.cut(z, letters) if letters else None  # kept, so that a row gives the same levels whenever it is asked for
        return self._said(z)

    @answers
    def represent(self, ask: Rows) -> Representation:  # Algorithm 2, lines 2-5
        rows = row_sets.unpack(ask.rows, len(self.party.table))
        return self._said(self.encoder(self.party.table[rows].to(self.party.device)))

    def _dim(self, x: Tensor) -> int:
        c = self.config
        return c.dim if c.letter_bytes is None else packing.columns_within(c.letter_bytes, math.prod(x.shape[1:]))

    def _said(self, z: Tensor) -> Representation:
        letters = packing.letters_within(self.config.letter_bytes, z.shape[1], self.config.letters)
        packed = packing.packed_letters(letters)
        if packed and self.scale:
            low, step = self.scale
            return Representation(levels=packing.pack(z, packed, low, step), low=low, step=step)
        return Representation(z.half() if letters == "float16" else z.float())


class Host(BaseHost[Config]):
    def setup(self) -> None:
        self.heard: dict[str, dict[str, Tensor]] = {}  # by guest: what it said of the training rows, as it came, so that refits need no letter
        self.tested: dict[str, dict[str, Tensor]] = {}  # the same of the run's test rows: what each guest is worth is read from the two
        self.widths: dict[str, int] = {}  # d_j of each guest that the model has columns for
        self.refits: dict[str, models.Model] = {}  # by who is there

    def fit(self, guests: Guests[Guest]) -> None:
        c, party, rows = self.config, self.party, self.party.training_rows
        if c.quorum is not None and not 0 <= c.quorum <= len(guests):
            raise StudyError(f"quorum = {c.quorum}, and there are {len(guests)} guests: choose 0 to {len(guests)}, or leave it out")
        question = Learn(row_sets.pack(rows, len(party.table)))
        replies = guests.ask(Guest.learn, question, within=c.within, quorum=c.quorum)  # line 19: the only communication
        own = party.table.fit(rows).to(party.device)
        self.heard = {name: _kept(reply) for name, reply in replies.items()}
        said = {name: self._heard(name, reply) for name, reply in replies.items()}
        trained = guests.names if c.absent == "zeros" else tuple(said)
        self.widths = {name: said[name].shape[1] if name in said else c.dim for name in trained}  # who never spoke said no d_j: `dim` zeros
        heard = absent.in_place(said, self.widths, len(own), party.device)  # Appendix C
        self.model = self.once(
            "model", lambda: models.fit(own, heard, party.y(rows), party.task, c, party.seeded("model"), party.device, party.epoch)
        )  # lines 20-31

    def predict(self, guests: Guests[Guest], rows: Tensor) -> Tensor:
        c, question = self.config, Rows(row_sets.pack(rows, len(self.party.table)))
        own = self.party.table[rows].to(self.party.device)
        enough = None if c.quorum is None else int(not own[:1].numel())  # a host without columns has nothing to say alone
        replies = guests.ask_each(Guest.represent, dict.fromkeys(self.heard, question), within=c.within, quorum=enough)  # Algorithm 2, lines 2-5
        if self._place.phase == "predict":
            self.tested = {name: _kept(reply) for name, reply in replies.items()}
        return self.scores(own, {name: self._heard(name, reply) for name, reply in replies.items()})

    def scores(self, own: Tensor, said: dict[str, Tensor]) -> Tensor:
        """Raw scores from the host's own columns and what these guests say of the same rows."""
        if self.config.absent == "zeros" or said.keys() == self.heard.keys():
            return self.model.predict(own, absent.in_place(said, self.widths, len(own), self.party.device))  # line 7
        pattern = ", ".join(said)
        if pattern not in self.refits:
            self.refits[pattern] = self.once(f"model of {pattern}", lambda: self.refit(tuple(said)))
        return self.refits[pattern].predict(own, list(said.values()))

    def refit(self, names: tuple[str, ...]) -> models.Model:
        """The model of these guests alone, from what was heard; with the seed of the model itself, so it is that of a run which had no others."""
        party, rows = self.party, self.party.training_rows
        own, heard = party.table[rows].to(party.device), list(self.letters(self.heard, names).values())
        return absent.refit(own, heard, party.y(rows), party.task, self.config, self.model, party.seeded("model"), party.device)

    def letters(self, kept: dict[str, dict[str, Tensor]], names: tuple[str, ...]) -> dict[str, Tensor]:
        """What these guests said, of `heard` or `tested`, as float32 [n, d]."""
        return {name: self._heard(name, Representation(**kept[name])) for name in names}

    def _heard(self, name: str, reply: Representation) -> Tensor:
        """What a guest said, as float32 [n, d]; LetterError where it is not in the study's letters."""
        z, levels, low, step = reply.z, reply.levels, reply.low, reply.step
        dim = next((t.shape[-1] for t in (z, low) if t is not None), 0)
        letters = packing.letters_within(self.config.letter_bytes, dim, self.config.letters)
        packed = packing.packed_letters(letters)
        if packed is None and z is not None and levels is low is step is None:
            return z.float().to(self.party.device)
        if packed and z is None and levels is not None and low is not None and step is not None:
            return packing.unpack(levels, packed, low, step).to(self.party.device)
        came = ", ".join(field for field in ("z", "levels", "low", "step") if getattr(reply, field) is not None) or "nothing"
        raise LetterError(f"{name} sent {came}: in letters of {letters} there should be {'levels, low and step' if packed else 'z alone'}")


def _kept(reply: Representation) -> dict[str, Tensor]:
    """A representation as the host's state holds it: as short as it travelled."""
    said = {"z": reply.z, "levels": reply.levels, "low": reply.low, "step": reply.step}
    return {field: numbers for field, numbers in said.items() if numbers is not None}
