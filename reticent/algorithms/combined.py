"""Combined: all columns in one place, which is what nobody may do. What learning together is measured against.

Exists only where all tables are on one machine, has no verb, says 0 bytes and *simulated*. With `model = "linear"` it is the
paper's Linear-Combine.
"""

from typing import Any

from torch import Tensor

from reticent.data.tables import Table
from reticent.errors import StudyError
from reticent.federation import Guests
from reticent.federation import Host as BaseHost
from reticent.learn import models
from reticent.party import Guest as BaseGuest

Config = models.ModelConfig


class Guest(BaseGuest[Config]):
    """Is never asked."""


class Host(BaseHost[Config]):
    alone = True  # asks nobody: no guest is started
    simulated = True

    def setup(self) -> None:
        if self.party.whole is None:
            raise StudyError("combined needs all parties' tables on one machine: give every --parties file, or a study with [data]")
        self._whole: Table = self.party.whole

    def fit(self, guests: Guests[Any]) -> None:
        party, rows = self.party, self.party.training_rows
        x = self._whole.fit(rows).to(party.device)
        self.encoding = self._whole.encoding
        self.model = self.once("model", lambda: models.fit(x, [], party.y(rows), party.task, self.config, party.seeded("model"), party.device, party.epoch))

    def predict(self, guests: Guests[Any], rows: Tensor) -> Tensor:
        self._whole.encoding = self.encoding
        return self.model.predict(self._whole[rows].to(self.party.device), [])
