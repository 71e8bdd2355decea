"""The Python face: what a notebook does, on small tables that the tests make and on the set that ships."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import reticent as rt
from reticent import plan as plans
from reticent import rows as row_sets
from reticent import study
from reticent.data.simulated import Federation
from reticent.errors import DataError, JournalError, StudyError
from reticent.message import Numbers, RowSet

ROOT = Path(__file__).resolve().parent.parent


def tables(rows: int = 200) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A bank and a shop: the label follows from a column of each."""
    draw = np.random.default_rng(7)
    age, debt, basket, visits = (draw.normal(size=rows).round(3) for _ in range(4))
    bank = pl.DataFrame({"customer": np.arange(rows), "age": age, "debt": debt, "default": np.where(age + basket > 0, "yes", "no")})
    shop = pl.DataFrame({"customer": np.arange(rows), "basket": basket, "visits": visits, "town": draw.choice(["Bern", "Basel"], rows)})
    return bank, shop


@pytest.fixture(scope="module")
def fed() -> Federation:
    bank, shop = tables()
    return rt.Federation.from_tables(host=bank, label="default", guests={"shop": shop}, id="customer")


class Ask(rt.Message):
    """Which rows to say. Reveals whom the host looks at."""

    rows: RowSet


class Said(rt.Message):
    """The mean of a row's columns: reveals it."""

    mean: Numbers


@dataclass(frozen=True)
class MeanConfig:
    weight: float = 1.0  # of what guests say


class MeanGuest(rt.Guest[MeanConfig]):
    @rt.answers
    def say(self, ask: Ask) -> Said:
        rows = row_sets.unpack(ask.rows, len(self.party.table))
        x = self.party.table.fit(rows) if self.party.table.encoding is None else self.party.table[rows]
        return Said(x.mean(1, keepdim=True))


class MeanHost(rt.Host[MeanConfig]):
    def fit(self, guests: rt.Guests[MeanGuest]) -> None:
        rows = self.party.training_rows
        heard = guests.ask(MeanGuest.say, Ask(row_sets.pack(rows, len(rows))))
        self.centre = sum(reply.mean for reply in heard.values()).mean(0)

    def predict(self, guests: rt.Guests[MeanGuest], rows: torch.Tensor) -> torch.Tensor:
        heard = guests.ask(MeanGuest.say, Ask(row_sets.pack(rows, len(self.party.table))))
        return self.config.weight * (sum(reply.mean for reply in heard.values()) - self.centre)[:, 0]


class Mean:
    """An algorithm as a notebook has it: a class with the three parts."""

    Config, Guest, Host = MeanConfig, MeanGuest, MeanHost


def test_importing_reticent_loads_neither_torch_nor_polars_nor_pydantic() -> None:
    said = "import sys, reticent; print(sorted({'torch', 'numpy', 'polars', 'pydantic', 'sklearn', 'lightgbm'} & {*sys.modules}), 'fit' in dir(reticent))"
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split("\n")[0] == "[] True"


def test_learn_imports_where_only_torch_numpy_and_scipy_are() -> None:
    said = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"polars", "pyarrow", "pydantic", "pandas", "cryptography", "typer", "rich", "safetensors", "sklearn", "lightgbm", "jinja2", "matplotlib"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from reticent.learn import encoders, flat, metrics, models, nat, nets, task, training
print(encoders.NAMES[0])
"""
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True, cwd=ROOT).stdout == "auto\n"


def test_every_public_name_is_there_and_another_is_refused_in_a_sentence() -> None:
    assert all(getattr(rt, name) is not None for name in rt.__all__)
    assert rt.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'fitt'.*fit"):
        rt.fitt  # noqa: B018
    with pytest.raises(AttributeError, match="the sets are adult"):
        rt.data.mnits  # noqa: B018


def test_a_set_is_split_by_counts_and_by_names() -> None:
    found = rt.data.default_credit()
    fed = found.split(host=13, guests={"shop": 10})
    assert [len(fed.deal.tables[name].names) for name in fed.names] == [13, 10]
    assert (int(fed.train.sum()), int(fed.test.sum())) == (24_000, 6_000)
    assert not (fed.train & fed.test).any()
    named = found.split(host=["AGE"], guests={"shop": 2, "telco": ["SEX"]}, test=0.5)
    assert {name: named.deal.tables[name].names for name in named.names} == {"host": ["AGE"], "shop": ["LIMIT_BAL", "EDUCATION"], "telco": ["SEX"]}
    assert int(named.test.sum()) == 15_000
    alone = found.split(host=0, guests={"shop": 23})
    assert (alone.host, alone.names, alone.deal.tables["host"].names) == ("host", ("host", "shop"), [])


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"host": 20, "guests": {"shop": 10}}, "host 20 and shop 10 columns were asked for, and default_credit has 23"),
        ({"host": ["AGES"], "guests": {"shop": 3}}, 'the set has no column "AGES"'),
        ({"host": 3, "guests": {"shop": 0}}, "guest shop has no columns"),
        ({"host": 3, "guests": {"host": 2}}, 'a guest is named "host"'),
        ({"host": ["AGE"], "guests": {"shop": ["AGE"]}}, '"AGE" is dealt 2 times'),
        ({"host": 0, "guests": {}}, "nobody has a column"),
    ],
)
def test_a_split_that_cannot_be_is_refused_in_a_sentence(how: dict[str, object], sentence: str) -> None:
    with pytest.raises(StudyError, match=sentence):
        rt.data.default_credit().split(**how)


def test_fit_predicts_chances_and_the_labels_own_classes(fed: Federation) -> None:
    run = rt.fit("fedonce", fed, model="linear", dim=4)
    chance = run.predict_proba(fed.test)
    assert chance.shape == (40, 2)
    assert torch.allclose(chance.sum(1), torch.ones(40))
    assert set(run.predict(fed.test)) == {"no", "yes"}
    assert ((chance[:, 1] > 0.5).numpy() == (run.predict(fed.test) == "yes")).all()
    assert run.metrics["auc"] > 0.95
    assert torch.equal(run.scores(fed.test), run.scores(fed.test.nonzero().flatten().tolist()))
    assert (run.result["rounds"]["fit"], run.ledger.rounds("fit"), run.ledger.bytes("up", "fit") > 160 * 3 * 4) == (1, 1, True)
    run.close()
    run.close()  # a second time is no fault


def test_a_run_is_what_its_study_file_would_be(tmp_path: Path) -> None:
    whole = rt.data.default_credit().split(host=13, guests={"shop": 10}, rows=300)
    run = rt.fit("fedonce", whole, model="linear", out=tmp_path / "run")
    again = study.read_study(tmp_path / "run" / "study.toml")
    plan = plans.make(again)
    assert plan.hash == run.plan.hash
    assert all(torch.equal(getattr(plan.deal, part), getattr(whole.deal, part)) for part in ("train", "test"))
    with pytest.raises(JournalError, match="holds a finished run"):
        rt.fit("fedonce", whole, model="linear", out=tmp_path / "run")


@pytest.mark.parametrize("algorithm", ["fedonce", "solo", "combined", "splitnn"])
def test_a_saved_run_gives_the_same_scores_bit_for_bit(fed: Federation, tmp_path: Path, algorithm: str) -> None:
    config: dict[str, object] = {"epochs": 2} if algorithm == "splitnn" else {"trees": 20}
    run = rt.fit(algorithm, fed, **config)
    before = run.scores(fed.test)
    kept = run.save(tmp_path / "run")
    again = rt.load(kept, fed)
    assert torch.equal(again.scores(fed.test), before)
    assert again.result["digest"] == run.result["digest"]
    assert torch.equal(again.test_scores, run.test_scores)
    assert [line["hash"] for line in again.ledger.lines()][: len(run.ledger.lines())] == [line["hash"] for line in run.ledger.lines()]
    with pytest.raises(JournalError, match="holds a run already"):
        run.save(kept)


def test_a_saved_run_finds_its_set_by_name_and_is_copied_from_its_folder(tmp_path: Path) -> None:
    whole = rt.data.default_credit().split(host=0, guests={"shop": 23}, rows=300, seed=3)
    run = rt.fit("fedonce", whole, model="linear", seed=5, out=tmp_path / "first")
    run.save(tmp_path / "second")
    scores = run.scores(whole.test)
    run.close()
    for name in ("first", "second"):
        with rt.load(tmp_path / name) as again:
            assert torch.equal(again.scores(whole.test), scores)


def test_tables_in_memory_must_be_given_again_and_be_the_same(fed: Federation, tmp_path: Path) -> None:
    rt.fit("solo", fed, model="linear").save(tmp_path / "run")
    with pytest.raises(StudyError, match="memory of a Python program: give them again"):
        rt.load(tmp_path / "run")
    bank, shop = tables(201)
    other = rt.Federation.from_tables(host=bank, label="default", guests={"shop": shop}, id="customer")
    with pytest.raises(DataError, match="not what it was"):
        rt.load(tmp_path / "run", other)


def test_a_report_is_written_of_a_run_in_memory(fed: Federation, tmp_path: Path) -> None:
    page = rt.fit("fedonce", fed, model="linear").report(tmp_path / "report.html")
    assert "represent" in page.read_text()


def test_shuffled_tables_give_the_same_digest_as_sorted_ones(fed: Federation) -> None:
    bank, shop = tables()
    shuffled = rt.Federation.from_tables(
        host=bank.sample(fraction=1.0, shuffle=True, seed=1), label="default", guests={"shop": shop.sample(fraction=1.0, shuffle=True, seed=2)}, id="customer"
    )
    runs = [rt.fit("fedonce", one, model="gbdt", trees=20) for one in (fed, shuffled)]
    assert runs[0].result["digest"] == runs[1].result["digest"]
    assert runs[0].plan.hash == runs[1].plan.hash


def test_polars_pandas_and_pyarrow_are_the_same_tables(fed: Federation) -> None:
    bank, shop = tables()
    made = [
        rt.Federation.from_tables(host=kind(bank), label="default", guests={"shop": kind(shop)}, id="customer")
        for kind in (pl.DataFrame.to_pandas, pl.DataFrame.to_arrow)
    ]
    assert {one.found.sha256 for one in made} == {fed.found.sha256}


def test_ids_that_differ_are_counted_and_named() -> None:
    bank, shop = tables(10)
    with pytest.raises(DataError, match=r'2 of 10 ids of host are not at shop, and 0 of 8 the other way round \("0" is at host alone\)'):
        rt.Federation.from_tables(host=bank, label="default", guests={"shop": shop[2:]}, id="customer")
    with pytest.raises(DataError, match='id "3" occurs 2 times'):
        rt.Federation.from_tables(host=bank, label="default", guests={"shop": pl.concat([shop, shop[3:4]])}, id="customer")
    with pytest.raises(DataError, match="host has 10 rows and shop 9: say id"):
        rt.Federation.from_tables(host=bank.drop("customer"), label="default", guests={"shop": shop[1:].drop("customer")})
    with pytest.raises(DataError, match='label column "defalt" is missing'):
        rt.Federation.from_tables(host=bank, label="defalt")
    with pytest.raises(DataError, match=r"builtins\.list: give a polars or pandas DataFrame"):
        rt.Federation.from_tables(host=[1, 2], label="default")


def test_columns_of_one_name_at_two_parties_keep_apart() -> None:
    bank, shop = tables()
    fed = rt.Federation.from_tables(host=bank, label="default", guests={"shop": shop.rename({"basket": "age"})}, id="customer")
    assert fed.deal.tables["host"].names == ["host.age", "debt"]
    assert fed.deal.tables["shop"].names == ["shop.age", "visits", "town"]
    assert rt.fit("combined", fed, model="linear").metrics["auc"] > 0.95


def test_a_host_alone_with_one_column_learns() -> None:
    bank, _ = tables()
    fed = rt.Federation.from_tables(host=bank.select("age", "default"), label="default")
    assert fed.names == ("host",)
    assert rt.fit("fedonce", fed, model="linear").metrics["auc"] > 0.7


def test_several_labels_several_classes_and_numbers_are_learnt() -> None:
    bank, shop = tables()
    score = bank["age"] + shop["basket"]
    kinds = {
        "multilabel": (bank.drop("default").with_columns(a=(score > 0).cast(pl.Int8), b=(shop["visits"] > 0).cast(pl.Int8)), ["a", "b"]),
        "multiclass": (bank.with_columns(default=pl.Series(np.select([score < -0.7, score < 0.7], ["low", "middle"], "high"))), "default"),
        "regression": (bank.with_columns(default=score), "default"),
    }
    for kind, (host, label) in kinds.items():
        fed = rt.Federation.from_tables(host=host, label=label, guests={"shop": shop}, id="customer")
        run = rt.fit("fedonce", fed, model="linear", dim=4)
        assert run.plan.deal.labels.task.kind == kind
        said = run.predict(fed.test)
        if kind == "multilabel":
            assert said.shape == (40, 2)
            assert set(said.flatten()) == {0, 1}
        elif kind == "multiclass":
            assert set(said) == {"low", "middle", "high"}
            assert run.predict_proba(fed.test).shape == (40, 3)
        else:
            assert run.metrics["r2"] > 0.99
            with pytest.raises(StudyError, match="a regression has no chances"):
                run.predict_proba(fed.test)


def test_a_class_from_a_notebook_is_an_algorithm(fed: Federation, tmp_path: Path) -> None:
    run = rt.fit(Mean, fed, weight=2.0)
    half = rt.fit(Mean, fed)
    assert torch.equal(run.scores(fed.test), 2 * half.scores(fed.test))
    assert run.result["algorithm"].endswith(":Mean")
    assert run.result["rounds"]["fit"] == 1
    again = rt.load(run.save(tmp_path / "run"), fed, algorithm=Mean)
    assert torch.equal(again.scores(fed.test), run.test_scores)
    with pytest.raises(StudyError, match='unknown key "wieght".*weight'):
        rt.fit(Mean, fed, wieght=2.0)


def test_what_is_no_algorithm_is_refused_in_a_sentence(fed: Federation) -> None:
    with pytest.raises(StudyError, match='algorithm "fedtwice" is unknown: .*fedonce'):
        rt.fit("fedtwice", fed)
    with pytest.raises(StudyError, match="has no Config, Guest, Host"):
        rt.fit(Path, fed)


def test_a_net_of_ones_own_is_the_hosts_or_a_guests(fed: Federation, tmp_path: Path) -> None:
    run = rt.fit("fedonce", fed.module("shop", "torch.nn:Linear"), model=torch.nn.Linear, encoder="autoencoder", guest_epochs=2, epochs=2, dim=2)
    assert run.plan.study.config["model"] == "torch.nn.modules.linear:Linear"
    assert run.doors["shop"].party.module == "torch.nn:Linear"
    again = rt.load(run.save(tmp_path / "run"), fed)
    assert torch.equal(again.scores(fed.test), run.test_scores)
    with pytest.raises(StudyError, match='no party "shoop": the parties are host, shop'):
        fed.module("shoop", "torch.nn:Linear")
    with pytest.raises(StudyError, match="cannot be imported"):
        fed.module("shop", "my.nets:Encoder")


def test_compare_gives_each_algorithm_the_settings_it_has(fed: Federation) -> None:
    results = rt.compare(["solo", "fedonce", "splitnn", "combined"], fed, model="linear", dim=3, settings={"splitnn": {"epochs": 1}})
    assert [result["algorithm"] for result in results] == ["solo", "fedonce", "splitnn", "combined"]
    assert [result["config"].get("dim") for result in results] == [None, 3, 3, None]
    assert results[2]["config"]["epochs"] == 1
    with pytest.raises(StudyError, match='none of solo, combined has a setting "dim"'):
        rt.compare(["solo", "combined"], fed, dim=3)
    with pytest.raises(StudyError, match='settings speak of "splitnn"'):
        rt.compare(["solo"], fed, settings={"splitnn": {"epochs": 1}})


def test_a_sweep_is_a_table_of_every_setting_and_seed(fed: Federation) -> None:
    results = rt.sweep("fedonce", fed, {"dim": [1, 3], "encoder": ["pca", "random"]}, seeds=range(2), model="linear")
    lines = rt.table(results)
    assert isinstance(lines, pd.DataFrame)
    assert lines[["config.dim", "config.encoder", "seed"]].values.tolist() == [[d, e, s] for d in (1, 3) for e in ("pca", "random") for s in (0, 1)]
    assert len(set(lines["auc"])) > 4
    assert results[0]["digest"] == rt.fit("fedonce", fed, dim=1, encoder="pca", model="linear").result["digest"]


def test_the_seed_of_a_fit_leaves_the_test_rows_alone(fed: Federation) -> None:
    run = rt.fit("fedonce", fed, model="linear", seed=9)
    assert torch.equal(run.plan.deal.test, fed.test)
    assert not torch.equal(fed.with_seed(9).test, fed.test)


def test_processes_give_the_same_bits_and_refuse_what_they_cannot_see(fed: Federation, tmp_path: Path) -> None:
    whole = rt.data.default_credit().split(host=13, guests={"shop": 10}, rows=400)
    near = rt.fit("fedonce", whole, model="linear")
    with rt.fit("fedonce", whole, model="linear", wire="processes", out=tmp_path / "run") as far:
        assert far.result["digest"] == near.result["digest"]
        assert torch.equal(far.scores(whole.test), near.test_scores)
    assert torch.equal(rt.load(tmp_path / "run").scores(whole.test), near.test_scores)
    with pytest.raises(StudyError, match='needs a folder: say where, as in out="runs/1"'):
        rt.fit("fedonce", whole, wire="processes")
    with pytest.raises(StudyError, match="memory of this process alone"):
        rt.fit("fedonce", fed, wire="processes", out=tmp_path / "other")


def test_pictures_are_dealt_by_rule() -> None:
    from reticent.data.labels import Labels
    from reticent.data.sets import Set
    from reticent.data.tables import Table
    from reticent.learn.task import Task

    rng = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 3
    pictures = (torch.rand(60, 1, 8, 8, generator=rng) * 99).to(torch.uint8) + (y * 70)[:, None, None, None].to(torch.uint8)
    found = Set("toy", Table(pictures=pictures), Labels(y, Task("multiclass", 3), ("a", "b", "c")), None, {}, True, "0" * 64, "ours", "")
    fed = found.deal("quadrants", host=1, test=0.25)
    assert (fed.names, fed.host) == (("p0", "p1", "p2", "p3"), "p1")
    run = rt.fit("fedonce", fed, model="linear", dim=4)
    assert run.metrics["accuracy"] > 0.8
    with pytest.raises(StudyError, match='a deal has no "party": alpha'):
        found.deal("quadrants", party=3)


def test_a_pyarrow_array_is_no_table() -> None:
    with pytest.raises(DataError, match="give a polars or pandas DataFrame, or a pyarrow Table"):
        rt.Federation.from_tables(host=pa.array([1, 2]), label="default")
