"""Forest cover types of Roosevelt National Forest (Blackard, UCI, 1998)."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, frames, plain, values
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/31/covertype"
files = {"https://archive.ics.uci.edu/static/public/31/covertype.zip": "covertype.zip"}
by_hand = ""
licence = "CC BY 4.0, Jock A. Blackard, UCI Machine Learning Repository, 1998"
rows = 581_012
aliases = ("covtype_subset",)

# the documentation gives Aspect and Hillshade; the other bounds are round ones of our own
measured = {
    "Elevation": Declared(1500, 4000),
    "Aspect": Declared(0, 360),
    "Slope": Declared(0, 90),
    "Horizontal_Distance_To_Hydrology": Declared(0, 1500),
    "Vertical_Distance_To_Hydrology": Declared(-250, 750),
    "Horizontal_Distance_To_Roadways": Declared(0, 7500),
    **bounds(["Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"], 0, 255),
    "Horizontal_Distance_To_Fire_Points": Declared(0, 7500),
}
coded = [*(f"Wilderness_Area{i}" for i in range(1, 5)), *(f"Soil_Type{i}" for i in range(1, 41))]
columns = [*measured, *coded]


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["class 2", "Cover_Type"])
    whole = frames(where, ["full"], official)["full"]
    target = whole["Cover_Type"] if name == "Cover_Type" else (whole["Cover_Type"] == 2).cast(pl.UInt8).alias(name)
    kinds = Declared(values=tuple(range(1, 8)) if name == "Cover_Type" else (0, 1))
    declared = {**measured, **values(coded, 0, 1), name: kinds}
    note = (
        "bounds of heights and distances are ours"
        if name == "Cover_Type"
        else "FedOnce's task: cover type 2 against the rest; bounds of heights and distances are ours"
    )
    return Found(Table(whole.select(columns)), labels(target, "classification", kinds), declared, None, {}, note)


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    whole = plain(file(where, "covtype.data.gz", "covtype.data"))
    return {"full": whole.rename(dict(zip(whole.columns, [*columns, "Cover_Type"], strict=True)))}
