"""UJIIndoorLoc: where a telephone is, by the Wi-Fi signals it hears (Torres-Sospedra and others, UCI, 2014).

Columns are the 520 signals alone: SPACEID, USERID and the like give the place away. FedOnce's code regresses the file's last
column, a time stamp; the place is what the set is for, so LONGITUDE is the default here.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, frames, pooled
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/310/ujiindoorloc"
files = {"https://archive.ics.uci.edu/static/public/310/ujiindoorloc.zip": "ujiindoorloc.zip"}
by_hand = ""
licence = "CC BY 4.0, UCI Machine Learning Repository, 2014"
rows = 21_048

NOT_HEARD, QUIETEST = 100, -105  # the file's code for no signal; one below the documented range of -104 to 0 dBm
columns = [f"WAP{i:03}" for i in range(1, 521)]
# LONGITUDE, LATITUDE, FLOOR and BUILDINGID as documented (rounded outwards); the time of the campaign is a round bound of our own
offered = {
    "LONGITUDE": Declared(-7696, -7299),
    "LATITUDE": Declared(4_864_745, 4_865_018),
    "FLOOR": Declared(values=(0, 1, 2, 3, 4)),
    "BUILDINGID": Declared(values=(0, 1, 2)),
    "TIMESTAMP": Declared(1_369_000_000, 1_382_000_000),
}


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, list(offered))
    whole, test = pooled(list(frames(where, ["train", "test"], official).values()))
    signals = whole.select(pl.col(columns).cast(pl.Int16).replace(NOT_HEARD, QUIETEST))
    kind = offered[name]
    found = labels(whole[name], "classification" if kind.values else "regression", kind)
    declared = {**bounds(columns, QUIETEST, 0), name: kind}
    return Found(Table(signals), found, declared, test, {}, f"520 signals alone, not heard = {QUIETEST}; FedOnce's code regresses TIMESTAMP, not a place")


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    return {
        part: pl.read_csv(file(where, f"UJIndoorLoc/{name}.csv"), infer_schema_length=None)
        for part, name in (("train", "trainingData"), ("test", "validationData"))
    }
