"""Solo: the host trains on its own columns and asks nobody. What learning together must beat.

Rounds: 0. The same models as `fedonce` trains, with nothing heard.
"""

from typing import Any

from torch import Tensor

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

    def fit(self, guests: Guests[Any]) -> None:
        party, rows = self.party, self.party.training_rows
        own = party.table.fit(rows).to(party.device)
        if not own[0:1].numel():
            raise StudyError(f"solo: {party.name} has labels and no columns, so it can learn nothing alone; leave solo out of --compare")
        self.model = self.once("model", lambda: models.fit(own, [], party.y(rows), party.task, self.config, party.seeded("model"), party.device, party.epoch))

    def predict(self, guests: Guests[Any], rows: Tensor) -> Tensor:
        return self.model.predict(self.party.table[rows].to(self.party.device), [])
