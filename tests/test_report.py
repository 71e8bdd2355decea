"""The report: one page that needs nothing else, says what the ledger says, and believes nobody."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from reticent import report, run, study, sweeps
from reticent.data.labels import Labels
from reticent.errors import JournalError
from reticent.learn.task import Task
from reticent.report import reading, words
from reticent.run import Options

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = '<script>alert("$x$ & {{ 7*7 }}")</script>'


class Page(HTMLParser):
    """Checks as it reads that what is opened is closed, in order; collects attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def table(folder: Path, kind: str) -> Path:
    rng = torch.Generator().manual_seed(3)
    x = torch.randn(240, 6, generator=rng)
    signal = x @ torch.tensor([1.0, 0.5, -1.0, 0.8, 0.3, 1.2])
    y = {"binary": (signal > 0).int(), "multiclass": (signal > -0.8).int() + (signal > 0.8).int(), "regression": signal}[kind]
    path = folder / f"{kind}.csv"
    pl.DataFrame({**{f"x{i}": x[:, i].numpy() for i in range(6)}, "y": y.numpy()}).write_csv(path)
    return path


def learnt(
    folder: Path, kind: str, name: str = "a study", config: dict[str, Any] | None = None, compare: tuple[str, ...] = ("solo", "splitnn", "combined")
) -> Path:
    wanted = study.study_from(
        {
            "study": {"name": name, "algorithm": "fedonce", "task": "regression" if kind == "regression" else "classification"},
            "data": {"set": str(table(folder, kind)), "label": "y", "split": "columns", "columns": [2, 2, 2], "test": 0.4},
            "config": {"dim": 1, "model": "linear", **(config or {})},
            "compare": {"splitnn": {"epochs": 2, "batch": 50}},
        }
    )
    out = folder / "run"
    sweeps.conduct(wanted, Options(compare=compare), out)
    return out


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learnt(tmp_path_factory.mktemp("binary"), "binary", HOSTILE, {"encoder": "autoencoder", "guest_epochs": 3, "model": "mlp", "epochs": 3})


def test_the_page_is_whole_and_loads_nothing(binary: Path) -> None:
    text = report.html(binary)
    page = Page(text)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)
    assert {"script", "link", "iframe", "img", "object", "embed"} & set(page.tags) == set()
    assert [a for a in page.attributes if a[1] in ("src", "srcset", "action") or a[1].startswith("on")] == []
    assert all(value.startswith("#") for _, key, value in page.attributes if key == "href")
    ids = Counter(value for _, key, value in page.attributes if key == "id")
    assert [name for name, count in ids.items() if count > 1] == []
    references = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert references <= set(ids)


def test_every_picture_says_in_words_what_it_shows(binary: Path) -> None:
    page = Page(report.html(binary))
    labels = [value for tag, key, value in page.attributes if (tag, key) == ("svg", "aria-label")]
    assert page.tags["figure"] == page.tags["svg"] == len(labels) == 7
    assert all(len(label) > 20 for label in labels)
    assert page.tags["title"] == 1
    assert ("html", "lang", "en") in page.attributes


def test_the_page_says_what_the_run_and_its_ledger_say(binary: Path) -> None:
    text = Page(report.html(binary)).text
    result = json.loads((binary / "run.json").read_text())["result"]
    lines = [json.loads(line) for line in (binary / "ledger.jsonl").read_text().splitlines()]
    for line in lines:
        assert line["verb"] in text
        assert line["reveals"] in text
        assert line["sha256"][:16] in text
    assert result["privacy"]["statement"] in text
    assert result["digest"] in text
    for one in (result, *result["compare"].values()):
        assert f"{one['metrics']['auc']:.3f}" in text
    assert f"{len(lines)} letters crossed" in text
    assert "verified" in text
    assert "The 2 guests keep ledgers of their own; they name the same letters" in text
    assert "reticent run study.toml" in text


def test_what_a_stranger_wrote_is_text_and_never_markup(binary: Path, tmp_path: Path) -> None:
    run_there = copied(binary, tmp_path)
    lines = [json.loads(line) for line in (run_there / "ledger.jsonl").read_text().splitlines()]
    for line in lines:
        line["verb"], line["reveals"] = HOSTILE, HOSTILE
        line["from" if line["way"] == "up" else "to"] = HOSTILE
    (run_there / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = report.html(run_there)
    page = Page(text)
    assert page.tags["script"] == 0
    assert "<script" not in text
    assert HOSTILE in page.text


def test_a_changed_line_is_told(binary: Path, tmp_path: Path) -> None:
    run_there = copied(binary, tmp_path)
    lines = (run_there / "ledger.jsonl").read_text().splitlines()
    entry = json.loads(lines[4])
    entry["bytes"] -= 1
    lines[4] = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    (run_there / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    text = Page(report.html(run_there)).text
    assert "This chain is broken: line 5 or one before it was changed" in text
    assert "verified" not in text


def test_a_line_taken_away_or_torn_is_told(binary: Path, tmp_path: Path) -> None:
    run_there = copied(binary, tmp_path)
    lines = (binary / "ledger.jsonl").read_text().splitlines(keepends=True)
    (run_there / "ledger.jsonl").write_text("".join(lines[:2] + lines[3:]))
    assert reading.ledger(run_there / "ledger.jsonl")[1].startswith("line 3 or one before it was changed")
    (run_there / "ledger.jsonl").write_text("".join(lines)[:-20])
    assert reading.ledger(run_there / "ledger.jsonl")[1] == f"line {len(lines)} is no ledger line"


def test_a_report_changes_nothing_in_the_run_but_its_own_file(binary: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in binary.rglob("*") if path.is_file() and path.name != "report.html"}
    file = report.write(binary)
    assert file == binary / "report.html"
    assert file.stat().st_mode & 0o777 == 0o600
    assert {path: path.read_bytes() for path in binary.rglob("*") if path.is_file() and path != file} == before
    assert report.write(binary, tmp_path / "new" / "page.html").read_text() == file.read_text()


def test_without_its_tables_the_page_says_so_and_does_without(tmp_path: Path) -> None:
    out = learnt(tmp_path, "binary", compare=())
    (tmp_path / "binary.csv").unlink()
    text = Page(report.html(out)).text
    assert "pictures that need test labels are left out" in text
    assert "Found and falsely found" not in text
    assert "Calibration" in text


def test_labels_at_hand_serve_where_no_file_holds_them(tmp_path: Path) -> None:
    out = learnt(tmp_path, "binary", compare=())
    (tmp_path / "binary.csv").unlink()
    count = json.loads((out / "run.json").read_text())["result"]["rows"]["test"]
    y = (torch.arange(count) % 2).float()
    assert "Found and falsely found" in report.html(out, Labels(y, Task("binary")))


@pytest.mark.parametrize("kind", ["multiclass", "regression"])
def test_other_tasks_have_their_own_figures(tmp_path: Path, kind: str) -> None:
    text = Page(report.html(learnt(tmp_path, kind))).text
    assert ("R²" in text) == (kind == "regression")
    assert ("Predicted and true" in text) == (kind == "regression")
    assert ("Calibration" in text) == (kind == "multiclass")
    assert "Found and falsely found" not in text


def test_several_seeds_are_means_with_their_spread(tmp_path: Path) -> None:
    wanted = study.read_study(learnt(tmp_path, "binary", compare=()) / "study.toml")
    result = sweeps.sweep(wanted, Options(compare=("solo",)), tmp_path / "sweep", [0, 1], None)
    text = Page(report.html(tmp_path / "sweep")).text
    assert f"{result['metrics']['auc']:.3f}" in text
    assert f"± {result['spread']['auc']:.3f}" in text
    assert "seed-0" in text
    assert "seed-1" in text


def test_a_run_that_is_not_finished_is_refused_with_the_next_step(binary: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holds no run"):
        report.html(tmp_path)
    run_there = copied(binary, tmp_path)
    run.note(run_there, Options(), None)
    with pytest.raises(JournalError, match="reticent resume"):
        report.html(run_there)


def test_numbers_are_said_as_people_say_them() -> None:
    assert [words.size(n) for n in (0, 999, 1000, 288_352, 11_400_000)] == ["0 bytes", "999 bytes", "1 kB", "288 kB", "11.4 MB"]
    assert [words.figure(v) for v in (0.78412, -0.05, float("inf"), None, 1234.5)] == ["0.784", "−0.050", "∞", "–", "1,234.5"]
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    metrics = {"auc": 0.8, "auc_interval": [0.7, 0.9]}
    base = {"parties": ["bank", "shop"], "rows": {"test": 1000}, "rounds": {"fit": 1}, "bytes": {"fit": {"up": 3000, "down": 1000}}}
    solo = {**base, "algorithm": "solo", "metrics": {"auc": 0.7}, "bytes": {"fit": {"up": 0, "down": 0}}}
    assert words.verdict({**base, "algorithm": "fedonce", "metrics": metrics, "compare": {"solo": solo}}) == (
        "In one round and 4 kB, bank and shop learnt a model with an AUC of 0.800 (95 % interval 0.700 to 0.900) "
        "on 1,000 rows it had not seen: 0.100 more than bank reaches alone."
    )


def copied(source: Path, to: Path) -> Path:
    """The run's own files, without its guests' and its baselines'."""
    folder = to / "copy"
    folder.mkdir()
    for name in ("run.json", "study.toml", "ledger.jsonl", "progress.json", "scores"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder
