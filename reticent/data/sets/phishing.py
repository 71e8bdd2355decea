"""Phishing websites, in LIBSVM's coding: 68 columns of 0 and 1 (UCI, 2015)."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from reticent.data.labels import labels
from reticent.data.sets._shared import Found, chosen, file, frames, libsvm, values
from reticent.data.tables import Table

home = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#phishing"
files = {"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/phishing": "phishing"}
by_hand = ""
licence = "CC BY 4.0 (UCI's Phishing Websites; LIBSVM's copy says nothing)"
rows = 11_055
aliases = ("phishing_libsvm",)

columns = [f"f{i}" for i in range(1, 69)]
declared = values([*columns, "label"], 0, 1)


def read(where: Path, label: str | None) -> Found:
    name = chosen(label, ["label"])
    whole = frames(where, ["full"], official)["full"]
    note = "0/1 as stored; LIBSVM's file has 0.18257 where 1 is here"
    return Found(Table(whole.select(columns)), labels(whole[name], "classification", declared[name]), declared, None, {}, note)


def official(where: Path) -> Mapping[str, pl.DataFrame]:
    x, y = libsvm(file(where, "phishing"), 68)
    whole = pl.from_numpy((x > 0).astype("uint8"), schema=columns)
    return {"full": whole.with_columns(pl.Series("label", (y > 0).astype("uint8")))}
