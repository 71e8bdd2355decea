import datetime as dt
from pathlib import Path

import polars as pl
import pytest
import torch

from reticent.data.encoding import Declared
from reticent.data.tables import Table, read
from reticent.errors import DataError

people = pl.DataFrame(
    {
        "id": ["10", "9", "100"],
        "age": [30, None, 50],
        "score": [0.5, -0.0, 1.0],
        "city": ["Ulm", None, "Köln"],
        "since": [dt.date(2020, 1, 1), None, dt.date(2021, 6, 1)],
        "ok": [True, False, None],
        "bad": [0, 1, 0],
    }
)


def every_format(frame: pl.DataFrame, folder: Path) -> list[Path]:
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    frame.write_ipc(folder / "t.arrow")
    frame.write_ipc_stream(folder / "t.feather")
    return [folder / f"t.{kind}" for kind in ("csv", "parquet", "arrow", "feather")]


def test_a_file_is_sorted_by_id_whatever_type_its_ids_have(tmp_path: Path) -> None:
    (people_again := tmp_path / "again").mkdir()
    for path in [*every_format(people, tmp_path), *every_format(people.with_columns(pl.col("id").cast(pl.Int32)), people_again)]:
        table, labels = read(path, id="id", label="bad")
        assert table.ids is not None
        assert table.ids.to_list() == ["9", "10", "100"]
        assert table.names == ["age", "score", "city", "since", "ok"]
        assert labels is not None
        assert labels.y.tolist() == [1, 0, 0]
        assert len(table) == 3


def test_the_hash_is_of_the_content_not_of_the_file(tmp_path: Path) -> None:
    narrow = people.with_columns(pl.col("age").cast(pl.UInt8), pl.col("city").cast(pl.Categorical))
    (tmp_path / "narrow").mkdir()
    paths = [*every_format(people, tmp_path), *every_format(narrow, tmp_path / "narrow")]
    assert len({read(path, id="id", label="bad")[0].sha256() for path in paths}) == 1
    table = Table(people)
    others = [
        people.with_columns(pl.col("age") + 1),
        people.rename({"age": "years"}),
        people.reverse(),
        people.with_columns(pl.col("age").fill_null(0)),
        people.with_columns(pl.col("city").fill_null("")),
    ]
    assert len({table.sha256(), *(Table(other).sha256() for other in others)}) == 6


def test_whole_numbers_that_no_float_holds_are_told_apart_by_the_hash() -> None:
    assert Table(pl.DataFrame({"x": [2**60]})).sha256() != Table(pl.DataFrame({"x": [2**60 + 1]})).sha256()


@pytest.mark.parametrize(
    "frame, names, words",
    [
        (pl.DataFrame({"id": [1, 1], "y": [0, 1]}), {"id": "id"}, 't.parquet: id "1" occurs 2 times in column "id"'),
        (pl.DataFrame({"id": [1, None], "y": [0, 1]}), {"id": "id"}, 'id column "id" is empty in 1 rows, first in row 1'),
        (pl.DataFrame({"x": [1]}), {"id": "key"}, 'id column "key" is missing; the file has "x"'),
        (pl.DataFrame({"x": [1]}), {"label": "bad"}, 'label column "bad" is missing'),
        (pl.DataFrame({"x": [1], "bad": [None]}), {"label": "bad"}, 't.parquet: label "bad" is empty in 1 of 1 rows'),
        (pl.DataFrame({"x": [1]}), {"id": "x", "label": "x"}, "both id and label"),
        (pl.DataFrame({"x": []}, schema={"x": pl.Int64}), {}, "the table is empty"),
        (pl.DataFrame({"x": [[1]]}), {}, 't.parquet: column "x" is of type List'),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(frame: pl.DataFrame, names: dict[str, str], words: str, tmp_path: Path) -> None:
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=words.replace("(", r"\(")):
        read(tmp_path / "t.parquet", **names)  # type: ignore[arg-type]


def test_files_that_are_no_tables_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.arrow", "t.feather"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(DataError, match="cannot be read|empty"):
            read(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "nothing.csv")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match="\\.xlsx"):
        read(tmp_path / "t.xlsx")


def test_rows_are_asked_for_by_mask_or_number_and_only_the_training_rows_are_fitted() -> None:
    table = Table(pl.DataFrame({"x": [0.0, 2.0, 100.0]}))
    assert table.width == 1
    with pytest.raises(DataError, match="fit"):
        table[torch.tensor([0])]
    assert table.fit(torch.tensor([True, True, False])).flatten().tolist() == [-1, 1]
    assert table[torch.tensor([2, 0])].flatten().tolist() == [99, -1]
    assert table[torch.tensor([False, True, False])].flatten().tolist() == [1]
    assert table.take(torch.tensor([1]))[:].flatten().tolist() == [1]
    with pytest.raises(DataError, match="mask of \\[2\\] rows does not fit a table of 3"):
        table[torch.tensor([True, False])]
    with pytest.raises(DataError, match="rows 0 to 3 were asked for"):
        table[torch.tensor([0, 3])]


def test_declarations_are_used_where_there_are_some() -> None:
    table = Table(pl.DataFrame({"x": [0.0, 2.0]}), declared={"x": Declared(0, 4)})
    assert table.fit(torch.tensor([0, 1])).flatten().tolist() == [-1, 0]


def test_pictures_are_scaled_to_one_and_need_no_fit() -> None:
    table = Table(pictures=torch.tensor([[[[0, 255]]], [[[255, 0]]]], dtype=torch.uint8))
    assert (len(table), table.width, table.names) == (2, 2, ["channel 0"])
    assert table[torch.tensor([1])].tolist() == [[[[1, -1]]]]
    assert table.fit(torch.tensor([True, False])).shape == (1, 1, 1, 2)
    with pytest.raises(DataError, match="uint8"):
        Table(pictures=torch.zeros(2, 1, 1, 2))


def test_a_host_without_columns_still_has_rows() -> None:
    table = Table(rows=3)
    assert (len(table), table.width) == (3, 0)
    assert table.fit(torch.tensor([True, False, True])).shape == (2, 0)
    assert len(table.take(torch.tensor([0, 1]))) == 2
    assert Table(pl.DataFrame({"x": [1, 2]})).select([]).fit(torch.tensor([0, 1])).shape == (2, 0)
    assert table.sha256() != Table(rows=4).sha256()


def test_select_names_a_column_that_is_not_there() -> None:
    with pytest.raises(DataError, match='no column "z"; the table has "x"'):
        Table(pl.DataFrame({"x": [1]})).select(["z"])


def test_one_row_and_one_column_are_a_table(tmp_path: Path) -> None:
    pl.DataFrame({"x": [4]}).write_csv(tmp_path / "t.csv")
    table, none = read(tmp_path / "t.csv")
    assert none is None
    assert table.fit(torch.tensor([0])).tolist() == [[0]]
