"""Loaders read our Parquet and the layout of their official homes; the latter on small tables made here."""

import gzip
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io
import torch
from PIL import Image

from reticent.data import encoding, sets
from reticent.errors import DataError, StudyError
from reticent.learn.task import Task

HERE = ("adult", "cod_rna", "covtype", "default_credit", "fashion_mnist", "kmnist", "mfeat", "mnist", "phishing", "ujiindoorloc")
AWAY = ("caltech7", "chexpert", "cifar10", "gisette", "modelnet40", "movielens", "nus_wide", "superconduct", "svhn")

draws = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the cache of whoever runs the tests is not looked at."""
    monkeypatch.setattr(sets, "cache", lambda: tmp_path / "cache")


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def table(path: Path, rows: np.ndarray, apart: str = " ") -> None:
    put(path, "".join(apart.join(f"{value:g}" for value in row) + apart.strip() * (apart == " ") + "\n" for row in np.atleast_2d(rows)))


def checked(name: str, root: Path, label: str | None = None) -> sets.Set:
    """Loads a set, and holds it to what every set promises."""
    found = sets.load(name, label, root)
    assert len(found.table) == len(found.labels)
    assert found.test is None or found.test.shape == (len(found.table),)
    assert not set(found.labels.names) & set(found.table.names)
    everything = torch.ones(len(found.table), dtype=torch.bool)
    assert found.table.fit(everything).isfinite().all()
    if found.table.columns is not None:
        assert encoding.fit(found.table.columns, found.declared).width > 0  # every column is declared
    assert set(found.labels.names) <= set(found.declared)
    assert {name for view in found.views.values() for name in view} <= set(found.table.names)
    assert found.licence
    return found


def test_every_set_is_listed_and_an_unknown_one_is_answered_with_the_list() -> None:
    assert sets.names() == sorted((*HERE, *AWAY))
    with pytest.raises(StudyError, match='set = "mnits" is unknown: .*mnist'):
        sets.load("mnits")


@pytest.mark.parametrize("name", AWAY)
def test_an_absent_set_says_where_it_is_to_be_had(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f'set "{name}" is not on this machine: .*RETICENT_DATA.*official home: http'):
        sets.load(name, folder=tmp_path)


def test_a_folder_without_the_files_names_the_one_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "gisette").mkdir()
    with pytest.raises(DataError, match="gisette_train.data"):
        sets.load("gisette", folder=tmp_path)


def test_default_credit_ships_with_its_attribution() -> None:
    found = sets.load("default_credit")
    assert (len(found.table), len(found.table.names), found.complete, found.test) == (30_000, 23, True, None)
    assert found.table.names[:6] == ["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0"]
    assert [len(view) for view in found.views.values()] == [5, 6, 6, 6]
    assert int(found.labels.y.sum()) == 6_636
    text = (sets.PACKAGE / "default_credit.LICENCE.txt").read_text()
    assert "I-Cheng Yeh" in text
    assert "Attribution 4.0" in text
    with pytest.raises(DataError, match='label = "ID": this set offers "default"'):
        sets.load("default_credit", "ID")


def test_a_path_is_a_set_too(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1.0, 2.0], "y": ["a", "b"]}).write_csv(tmp_path / "t.csv")
    found = sets.load(str(tmp_path / "t.csv"), "y")
    assert (found.table.names, found.labels.classes, found.test) == (["x"], ("a", "b"), None)
    with pytest.raises(StudyError, match='say label = "…"'):
        sets.load(str(tmp_path / "t.csv"))


def test_folders_come_from_an_environment_that_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sets.home({"RETICENT_DATA": "/data", "XDG_CACHE_HOME": "/c"}) == [Path("/data"), Path("/c/reticent")]
    monkeypatch.setattr(sets, "cache", lambda: Path("/home/.cache/reticent"))
    assert sets.home({}) == [Path("/home/.cache/reticent")]


def test_get_unpacks_what_it_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.column_stack([draws.random((4, 81)), [1.0, 2.0, 3.0, 4.5]])
    names = [*(f"mean_fie_{i}" for i in range(81)), "critical_temp"]
    pl.from_numpy(rows, schema=names).write_csv(tmp_path / "train.csv")
    with zipfile.ZipFile(tmp_path / "away.zip", "w") as file:
        file.write(tmp_path / "train.csv", "train.csv")
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: (tmp_path / "away.zip").open("rb"))
    assert sets.get("superconduct", tmp_path / "data") == tmp_path / "data" / "superconduct"
    found = checked("superconduct", tmp_path / "data")
    assert (found.labels.task, found.labels.y.tolist(), found.complete) == (Task("regression"), [1, 2, 3, 4.5], False)
    assert found.note.startswith("subset: 4 of 21,263 rows")


def test_get_without_a_network_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", nowhere)
    with pytest.raises(DataError, match="mnist: https://.* could not be fetched .*no route.*: check the network"):
        sets.get("mnist", tmp_path)
    with pytest.raises(DataError, match="chexpert cannot be fetched by a program: register at"):
        sets.get("chexpert", tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
def test_idx_files_are_read_gzipped_or_not(name: str, tmp_path: Path) -> None:
    pixels = draws.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    for part, rows, pack in (("train", slice(0, 3), gzip.compress), ("t10k", slice(3, 5), bytes)):
        x, y = pixels[rows], np.arange(5, dtype=np.uint8)[rows]
        for kind, array in (("images-idx3", x), ("labels-idx1", y)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
            path = tmp_path / name / f"{part}-{kind}-ubyte{'.gz' * (pack is gzip.compress)}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(pack(head + array.tobytes()))
    found = checked(name, tmp_path)
    assert found.table.pictures is not None
    assert torch.equal(found.table.pictures[:, 0], torch.from_numpy(pixels))
    assert (found.labels.y.tolist(), found.test.tolist() if found.test is not None else None) == ([0, 1, 2, 3, 4], [False] * 3 + [True] * 2)
    assert found.labels.task == Task("multiclass", 10)


def test_a_torn_idx_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (tmp_path / "mnist" / name).write_bytes(b"\0\0\x08\x01\0\0\0\x09ab")
    with pytest.raises(DataError, match="torn"):
        sets.load("mnist", folder=tmp_path)


def test_cifar10_is_the_same_from_its_official_file_and_from_parquet(tmp_path: Path) -> None:
    planes = draws.integers(0, 256, (12, 3, 32, 32)).astype(np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    folder = tmp_path / "official" / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        both = [bytes([labels[j]]) + planes[j].tobytes() for j in (2 * i, 2 * i + 1)]
        (folder / f"{name}.bin").write_bytes(b"".join(both))
    (tmp_path / "parquet" / "cifar10").mkdir(parents=True)
    for part, rows in (("train", range(10)), ("test", range(10, 12))):
        frame = pl.DataFrame({"image": [planes[i].transpose(1, 2, 0).tobytes() for i in rows], "label": labels[list(rows)]})
        frame.write_parquet(tmp_path / "parquet" / "cifar10" / f"{part}.parquet")
    first, second = (checked("cifar10", tmp_path / kind) for kind in ("official", "parquet"))
    assert first.sha256 == second.sha256
    assert first.table.pictures is not None
    assert torch.equal(first.table.pictures, torch.from_numpy(planes))
    assert first.labels.classes[:2] == ("airplane", "automobile")


def test_libsvm_files_are_read(tmp_path: Path) -> None:
    put(tmp_path / "phishing" / "phishing", "1 1:0.18257 68:0.18257\n0 2:0.18257\n")
    found = checked("phishing", tmp_path)
    assert found.table.columns is not None
    assert found.table.columns.select("f1", "f2", "f68").rows() == [(1, 0, 1), (0, 1, 0)]
    assert found.labels.y.tolist() == [1, 0]
    put(tmp_path / "phishing" / "phishing", "1 69:1\n")
    with pytest.raises(DataError, match="line 1 is not"):
        sets.load("phishing", folder=tmp_path)


def test_test_rows_that_occur_in_training_are_left_out_of_cod_rna(tmp_path: Path) -> None:
    put(tmp_path / "cod_rna" / "cod-rna", "-1 1:-5 2:100\n1 1:-6 2:100\n-1 1:-5 2:100\n")
    put(tmp_path / "cod_rna" / "cod-rna.t", "-1 1:-5 2:100\n1 1:-5 2:100\n1 1:-7\n1 1:-7\n")
    found = checked("cod_rna", tmp_path)
    assert len(found.table) == 6
    assert found.labels.y.tolist() == [0, 1, 0, 1, 1, 1]
    assert found.test is not None
    assert int(found.test.sum()) == 3
    assert "1 test rows that occur in the training part were removed" in found.note


def test_covtype_is_class_2_against_the_rest_or_all_seven(tmp_path: Path) -> None:
    rows = np.zeros((7, 55), int)
    rows[:, 0], rows[:, -1] = 2000, range(1, 8)
    (tmp_path / "covtype").mkdir()
    (tmp_path / "covtype" / "covtype.data.gz").write_bytes(gzip.compress("".join(",".join(map(str, row)) + "\n" for row in rows).encode()))
    assert checked("covtype", tmp_path).labels.y.tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert checked("covtype", tmp_path, "Cover_Type").labels.task == Task("multiclass", 7)


def test_ujiindoorloc_has_520_signals_and_what_is_not_heard_is_the_quietest(tmp_path: Path) -> None:
    names = [
        *(f"WAP{i:03}" for i in range(1, 521)),
        "LONGITUDE",
        "LATITUDE",
        "FLOOR",
        "BUILDINGID",
        "SPACEID",
        "RELATIVEPOSITION",
        "USERID",
        "PHONEID",
        "TIMESTAMP",
    ]
    row = [100, -60, *[100] * 518, -7500.5, 4864800.0, 2, 1, 3, 1, 1, 1, 1370000000]
    for name in ("trainingData", "validationData"):
        put(tmp_path / "ujiindoorloc" / "UJIndoorLoc" / f"{name}.csv", ",".join(names) + "\n" + ",".join(map(str, row)) + "\n")
    found = checked("ujiindoorloc", tmp_path)
    assert found.table.columns is not None
    assert found.table.columns.row(0)[:3] == (-105, -60, -105)
    assert (len(found.table.names), found.labels.names, found.labels.y.tolist()) == (520, ("LONGITUDE",), [-7500.5, -7500.5])
    assert checked("ujiindoorloc", tmp_path, "FLOOR").labels.classes == (0, 1, 2, 3, 4)
    assert checked("ujiindoorloc", tmp_path, "TIMESTAMP").labels.task.kind == "regression"


def test_adults_question_marks_are_missing(tmp_path: Path) -> None:
    row = "39, ?, 77516, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 2174, 0, 40, United-States, "
    put(tmp_path / "adult" / "adult.data", row + "<=50K\n" + row + ">50K\n\n")
    put(tmp_path / "adult" / "adult.test", "|1x3 Cross validator\n" + row + ">50K.\n")
    found = checked("adult", tmp_path)
    assert found.table.columns is not None
    assert found.table.columns["workclass"].to_list() == [None] * 3
    assert (found.labels.classes, found.labels.y.tolist()) == (("<=50K", ">50K"), [0, 1, 1])
    assert found.test is not None
    assert found.test.tolist() == [False, False, True]


def test_mfeat_has_six_views(tmp_path: Path) -> None:
    for view, width in (("fou", 76), ("fac", 216), ("kar", 64), ("pix", 240), ("zer", 47), ("mor", 6)):
        table(tmp_path / "mfeat" / f"mfeat-{view}", draws.random((20, width)))
    found = checked("mfeat", tmp_path)
    assert {view: len(names) for view, names in found.views.items()} == {"fou": 76, "fac": 216, "kar": 64, "pix": 240, "zer": 47, "mor": 6}
    assert found.labels.y.tolist() == [i // 2 for i in range(20)]


def test_gisette_is_read_with_its_validation_part_as_the_test(tmp_path: Path) -> None:
    for part, rows in (("train", 4), ("valid", 2)):
        table(tmp_path / "gisette" / "GISETTE" / f"gisette_{part}.data", draws.integers(0, 1000, (rows, 5000)))
        table(tmp_path / "gisette" / f"gisette_{part}.labels", np.array([[1], [-1]] * (rows // 2)))
    found = checked("gisette", tmp_path)
    assert (len(found.table.names), found.labels.classes, found.labels.y.tolist()) == (5000, (-1, 1), [1, 0] * 3)
    assert found.test is not None
    assert int(found.test.sum()) == 2


def test_svhn_calls_the_digit_0_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "svhn").mkdir()
    pixels = draws.integers(0, 256, (32, 32, 3, 4)).astype(np.uint8)
    for part in ("train", "test"):
        scipy.io.savemat(tmp_path / "svhn" / f"{part}_32x32.mat", {"X": pixels, "y": np.array([[10], [1], [2], [9]], np.uint8)})
    found = checked("svhn", tmp_path)
    assert found.labels.y.tolist() == [0, 1, 2, 9] * 2
    assert found.table.pictures is not None
    assert found.table.pictures[1, 2, 3, 4] == pixels[3, 4, 2, 1]


def test_caltech7_has_six_views(tmp_path: Path) -> None:
    (tmp_path / "caltech7").mkdir()
    cell = np.empty((1, 6), object)
    for i, width in enumerate((48, 40, 254, 1984, 512, 928)):
        cell[0, i] = draws.random((7, width))
    scipy.io.savemat(tmp_path / "caltech7" / "Caltech101-7.mat", {"X": cell, "Y": np.arange(1, 8)[:, None]})
    found = checked("caltech7", tmp_path)
    assert [len(view) for view in found.views.values()] == [48, 40, 254, 1984, 512, 928]
    assert found.labels.classes == (1, 2, 3, 4, 5, 6, 7)


def test_nus_wide_asks_for_the_sky_unless_told_otherwise(tmp_path: Path) -> None:
    root = tmp_path / "nus_wide"
    for part, rows in (("Train", 3), ("Test", 2)):
        for feature, width in (("CH", 64), ("CORR", 144), ("EDH", 73), ("WT", 128), ("CM55", 225)):
            table(root / "Low_Level_Features" / f"{part}_Normalized_{feature}.dat", draws.random((rows, width)))
        table(root / "Groundtruth" / "TrainTestLabels" / f"Labels_sky_{part}.txt", np.array([[1], [0], [1]][:rows]))
        table(root / "Groundtruth" / "TrainTestLabels" / f"Labels_dog_{part}.txt", np.array([[0], [0], [1]][:rows]))
    found = checked("nus_wide", tmp_path)
    assert (found.labels.y.tolist(), len(found.table.names)) == ([1, 0, 1, 1, 0], 634)
    assert checked("nus_wide", tmp_path, "dog").labels.y.tolist() == [0, 0, 1, 0, 0]
    with pytest.raises(DataError, match="Labels_cat_Train"):
        sets.load("nus_wide", "cat", tmp_path)


def test_movielens_joins_people_and_films_to_their_ratings(tmp_path: Path) -> None:
    root = tmp_path / "movielens" / "ml-1m"
    put(root / "ratings.dat", "1::7::5::978300760\n2::7::3::978302109\n")
    put(root / "users.dat", "1::F::1::10::48067\n2::M::56::16::70072-1234\n")
    put(root / "movies.dat", "7::Sabrina (1995)::Comedy|Romance\n")
    found = checked("movielens", tmp_path)
    assert found.table.columns is not None
    assert found.table.columns.select("user", "gender", "region", "year", "Comedy", "War").rows() == [("1", "F", "4", 1995, 1, 0), ("2", "M", "7", 1995, 1, 0)]
    assert (found.labels.task.kind, found.labels.y.tolist()) == ("regression", [5, 3])
    put(root / "movies.dat", "7::Sabrina (1995)\n")
    with pytest.raises(DataError, match="line 1 has 2 fields where 3"):
        sets.load("movielens", folder=tmp_path)


def grey(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value, value)).save(path)


def test_modelnet40_has_a_channel_and_a_view_for_each_of_twelve_sides(tmp_path: Path) -> None:
    for kind, part, shape in (("bed", "train", "bed_1.obj.shaded_v"), ("sofa", "train", "sofa_1"), ("sofa", "test", "sofa_2")):
        for side in range(1, 13):
            grey(tmp_path / "modelnet40" / kind / part / f"{shape}{'' if shape.endswith('v') else '.'}{side:03}.png", side)
    found = checked("modelnet40", tmp_path)
    assert found.table.pictures is not None
    assert found.table.pictures.shape == (3, 12, 64, 64)
    assert found.table.pictures[0, :, 0, 0].tolist() == list(range(1, 13))
    assert (found.labels.classes, found.labels.y.tolist()) == (("bed", "sofa"), [0, 1, 1])
    assert len(found.views) == 12
    (tmp_path / "modelnet40" / "bed" / "train" / "bed_1.obj.shaded_v001.png").unlink()
    with pytest.raises(DataError, match="bed_1 has 11 pictures where 12"):
        sets.load("modelnet40", folder=tmp_path)


def test_chexpert_keeps_studies_with_both_pictures_and_counts_uncertain_as_absent(tmp_path: Path) -> None:
    root = tmp_path / "chexpert" / "CheXpert-v1.0-small"
    head = "Path,Frontal/Lateral,Cardiomegaly,Edema,Consolidation,Atelectasis,Pleural Effusion\n"
    for part in ("train", "valid"):
        lines = []
        for study, sides in (("patient1/study1", ("Frontal", "Lateral")), ("patient2/study1", ("Frontal",))):
            for i, side in enumerate(sides):
                grey(root / part / study / f"view{i}.jpg", 40 * (i + 1))
                lines.append(f"CheXpert-v1.0-small/{part}/{study}/view{i}.jpg,{side},1.0,-1.0,,0.0,1.0\n")
        put(root / f"{part}.csv", head + "".join(lines))
    found = checked("chexpert", tmp_path)
    assert found.labels.task == Task("multilabel", 5)
    assert found.labels.y.tolist() == [[1, 0, 0, 0, 1]] * 2
    assert found.table.pictures is not None
    assert found.table.pictures[0, :, 0, 0].tolist() == pytest.approx([40, 80], abs=2)
    with pytest.warns(UserWarning, match="one class only"):
        assert checked("chexpert", tmp_path, "Edema").labels.y.tolist() == [0, 0]


@pytest.mark.data
@pytest.mark.parametrize("name", HERE)
def test_the_real_sets_are_what_was_published(name: str, data: Path) -> None:
    published = {
        "adult": (48_842, 14, 16_281, True),
        "cod_rna": (326_461, 8, 266_926, False),
        "covtype": (92_962, 54, None, False),
        "default_credit": (30_000, 23, None, True),
        "fashion_mnist": (70_000, 1, 10_000, True),
        "kmnist": (17_011, 1, 10_000, False),
        "mfeat": (2_000, 649, None, True),
        "mnist": (70_000, 1, 10_000, True),
        "phishing": (11_055, 68, None, True),
        "ujiindoorloc": (21_048, 520, 1_111, True),
    }
    found = checked(name, data) if name not in ("mnist", "fashion_mnist") else sets.load(name, folder=data)
    tested = None if found.test is None else int(found.test.sum())
    assert (len(found.table), len(found.table.names), tested, found.complete) == published[name]
    assert found.note.startswith("subset") == (not found.complete)


@pytest.mark.data
def test_default_credit_ships_as_it_lies_in_the_folder(data: Path) -> None:
    assert sets.load("default_credit").sha256 == sets.load("default_credit", folder=data).sha256
