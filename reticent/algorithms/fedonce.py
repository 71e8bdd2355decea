"""FedOnce-L0: each guest learns a representation without labels and sends it once; the host trains one model on all of them.

Wu, Li, He, "Practical Vertical Federated Learning with Unsupervised Representation Learning", IEEE Transactions on Big Data,
2022: Algorithm 1 (training, without lines 10-13 and 25-28, which are L1's) and Algorithm 2 (prediction).
Rounds: 1 to fit, 1 to predict. Letters a guest: 1 and 1.

Deviations, each with its reason and its figure in docs/papers/fedonce.md:
- `encoder` is any unsupervised one; by default PCA of the columns' normal scores (of the pixels, where there are pictures): NAT, the
  paper's, is no better and costs a thousand times more.
- `model` is any learner, picked by validation by default: boosted trees on [own columns | what was heard] beat the paper's
  net on tables. `model = "paper"` is the paper's: own columns squeezed to d numbers, raw Z, one aggregation net.
- the host standardises what it hears (not in `paper`).
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from reticent import rows as row_sets
from reticent.errors import PartyError
from reticent.federation import Guests
from reticent.federation import Host as BaseHost
from reticent.learn import encoders, models
from reticent.message import Message, Numbers, RowSet
from reticent.party import Guest as BaseGuest
from reticent.party import answers


@dataclass(frozen=True)
class Config(models.ModelConfig):
    dim: int = 8  # d: numbers a guest sends for a row (PCA: no more than it has columns)
    encoder: str = "rank-pca"  # how a guest makes them, f_θj: rank-pca, pca, identity, random, random-net, nat or autoencoder
    letters: Literal["float32", "float16"] = "float32"  # how they travel
    guest_epochs: int = 40  # T_j, of encoders that are trained
    guest_lr: float = 1e-3  # η, a guest's
    guest_batch: int = 100  # b, a guest's
    guest_hidden: tuple[int, ...] = (30, 30)  # hidden layers of f_θj on tables; pictures take CNN0
    guest_weight_decay: float = 0.0  # λ, a guest's
    frequency: int = 1  # f: NAT assigns targets every f epochs


class Learn(Message):
    """Which rows train: a bit mask. Reveals which people the host trains on; where the split is stratified, a little of the labels' counts."""

    rows: RowSet


class Rows(Message):
    """Which rows to represent. Reveals whom the host wants a prediction for."""

    rows: RowSet


class Representation(Message):
    """R_j, d numbers for each row: reveals to the host what they tell of the guest's columns. No noise: with PCA and d as large as the columns are many, that is everything."""

    z: Numbers


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
            name=c.encoder, dim=c.dim, hidden=c.guest_hidden, epochs=c.guest_epochs, lr=c.guest_lr, weight_decay=c.guest_weight_decay,
            batch=c.guest_batch, frequency=c.frequency, module=party.module,
        )  # fmt: skip
        self.encoder = encoders.fit(x, how, party.rng, party.device, progress=party.epoch)  # lines 3-15
        return self._said(self.encoder(x))  # line 16

    @answers
    def represent(self, ask: Rows) -> Representation:  # Algorithm 2, lines 2-5
        rows = row_sets.unpack(ask.rows, len(self.party.table))
        return self._said(self.encoder(self.party.table[rows].to(self.party.device)))

    def _said(self, z: Tensor) -> Representation:
        return Representation(z.half() if self.config.letters == "float16" else z.float())


class Host(BaseHost[Config]):
    def fit(self, guests: Guests[Guest]) -> None:
        party, rows = self.party, self.party.training_rows
        replies = guests.ask(Guest.learn, Learn(row_sets.pack(rows, len(party.table))))  # line 19: the only communication
        own = party.table.fit(rows).to(party.device)
        heard = [reply.z.float().to(party.device) for reply in replies.values()]
        self.model = self.once(
            "model", lambda: models.fit(own, heard, party.y(rows), party.task, self.config, party.seeded("model"), party.device, party.epoch)
        )  # lines 20-31

    def predict(self, guests: Guests[Guest], rows: Tensor) -> Tensor:
        replies = guests.ask(Guest.represent, Rows(row_sets.pack(rows, len(self.party.table))))  # Algorithm 2, lines 2-5
        own = self.party.table[rows].to(self.party.device)
        return self.model.predict(own, [reply.z.float().to(self.party.device) for reply in replies.values()])  # line 7
