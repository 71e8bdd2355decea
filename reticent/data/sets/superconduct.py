"""Superconductivity: critical temperatures by 81 properties of the material (Hamidieh, UCI, 2018)."""

from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file
from reticent.data.tables import Table

home = "https://archive.ics.uci.edu/dataset/464/superconductivty+data"
files = {"https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip": "superconductivty+data.zip"}
by_hand = ""
licence = "CC BY 4.0, Kam Hamidieh, UCI Machine Learning Repository, 2018"
rows = 21_263

LABEL = "critical_temp"


def limits(name: str) -> Declared:
    """Undocumented: round bounds of our own, by the property that a column is a statistic of."""
    if name == "number_of_elements":
        return Declared(0, 10)
    for word, most in (
        ("entropy", 3),
        ("atomic_mass", 250),
        ("fie", 1600),
        ("atomic_radius", 300),
        ("Density", 25_000),
        ("ElectronAffinity", 400),
        ("FusionHeat", 120),
    ):
        if word in name:
            return Declared(0, most)
    return Declared(0, 450 if "ThermalConductivity" in name else 10)


def read(where: Path, label: str | None) -> Found:
    """train.csv, whose last column is the temperature; unique_m.csv, beside it, holds the formulas and is not needed."""
    name = chosen(label, [LABEL])
    whole = pl.read_csv(file(where, "train.csv"), infer_schema_length=None)
    columns = whole.drop(name)
    declared = {**{column: limits(column) for column in columns.columns}, **bounds([name], 0, 200)}
    return Found(Table(columns), labels(whole[name], "regression", declared[name]), declared, None, {}, "bounds are ours")
