import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reticent import audit
from reticent.algorithms import names
from reticent.cli.commands import app
from reticent.errors import ReticentError, StudyError

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "<!-- audit " in page.read_text(encoding="utf-8")]


def test_audit_lists_every_question_and_answer_of_fedonce() -> None:
    done = CliRunner().invoke(app, ["audit", "fedonce", "--json"])
    found = json.loads(done.stdout)
    assert found["citation"].startswith("FedOnce-L0: each guest learns a representation without labels")
    assert [(v["verb"], v["question"], v["answer"], v["unnoised"], v["speaks"]) for v in found["verbs"]] == [
        ("learn", "Learn", "Representation", True, True),
        ("represent", "Rows", "Representation", True, True),
        ("meet", "Meet", "Present", False, False),
    ]
    assert found["verbs"][0]["fields"] == {
        "question": {"rows": "row numbers or a row mask"},
        "answer": {
            "z": "float32 or float16 numbers of 2 dimensions, or nothing",
            "levels": "uint8 numbers of 2 dimensions, or nothing",
            "low": "float32 numbers of 1 dimension, or nothing",
            "step": "float32 numbers of 1 dimension, or nothing",
        },
    }
    assert all({"verb", "question", "question_reveals", "answer", "reveals", "unnoised", "speaks", "fields"} <= set(v) for v in found["verbs"])


def test_a_question_that_tells_labels_says_so() -> None:
    step = next(entry for entry in audit.exits("splitnn") if entry["verb"] == "step")
    assert step["question_unnoised"]
    assert "labels" in step["question_reveals"]


@pytest.mark.parametrize("name", ["solo", "combined"])
def test_an_algorithm_that_asks_nobody_has_no_exit(name: str) -> None:
    assert audit.exits(name) == []
    assert "asks nobody" in audit.markdown(name)


@pytest.mark.parametrize("name", names())
def test_every_verb_is_a_row_of_the_table_and_every_row_has_six_cells(name: str) -> None:
    rows = [line.replace("\\|", "") for line in audit.markdown(name).splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [entry["verb"] for entry in audit.exits(name)]
    assert {row.count(" | ") for row in rows} <= {5}


def test_a_page_is_refreshed_between_its_marks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- audit solo -->\nold\n<!-- end -->\nbetween\n<!-- audit fedonce -->\n<!-- end -->\nafter\n", encoding="utf-8")
    assert audit.refresh(page)
    assert page.read_text(encoding="utf-8") == (
        f"before\n<!-- audit solo -->\n{audit.markdown('solo')}\n<!-- end -->\nbetween\n<!-- audit fedonce -->\n{audit.markdown('fedonce')}\n<!-- end -->\nafter\n"
    )
    assert not audit.refresh(page)


def test_a_section_without_an_end_is_refused() -> None:
    with pytest.raises(ReticentError, match="1 audit sections begin and 0 of them end"):
        audit.refreshed("<!-- audit fedonce -->\n| verb |\n")


def test_what_the_docs_print_is_what_the_classes_say() -> None:
    """An algorithm that says more than it did shows in the diff of docs/threat-model.md: `python -m reticent.audit docs/threat-model.md`."""
    stale = [str(page.relative_to(ROOT)) for page in PAGES if audit.refreshed(page.read_text(encoding="utf-8")) != page.read_text(encoding="utf-8")]
    assert stale == []


def test_an_unknown_algorithm_is_named_with_those_there_are() -> None:
    with pytest.raises(StudyError, match='algorithm "fedtwice" is unknown: .*fedonce'):
        audit.exits("fedtwice")
    done = subprocess.run([sys.executable, "-m", "reticent", "audit", "fedtwice", "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (StudyError.exit_code, "")
    assert done.stderr.startswith('reticent: algorithm "fedtwice" is unknown')


def test_people_read_a_table_and_pages_get_markdown() -> None:
    assert "noise" in CliRunner().invoke(app, ["audit", "fedonce"]).stdout
    assert CliRunner().invoke(app, ["audit", "fedonce", "--markdown"]).stdout == audit.markdown("fedonce") + "\n"
