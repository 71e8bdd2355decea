"""The two files people write: what they mean, and the one sentence for what they cannot."""

import hashlib
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from reticent import study as module
from reticent.errors import PartyError, ReticentError, StudyError
from reticent.study import (
    byte_count,
    configure,
    describe_party,
    describe_study,
    effective,
    fields_shared,
    party_count,
    read_party,
    read_study,
    study_from,
    study_hash,
    write_toml,
)
from reticent.toml import key_lines

# design §8, as it stands there
STUDY = """\
# study.toml: the same at every party; its hash is in every letter
[study]
name = "credit-default"
algorithm = "fedonce"        # a module name or a dotted path
task = "classification"      # or "regression"
wire = "processes"
[parties]
host = "bank"
guests = ["shop", "telco"]
[rows]                       # which of the common rows test and train
test = 0.2
[config]                     # the algorithm's Config, checked by it
encoder = "pca"
dim = 8
[privacy]
epsilon = 4.0
delta = 1e-5
against = "public"
"""
PARTY = """\
name = "bank"
table = "bank.parquet"       # or .csv, or a database
id = "customer_id"
label = "default"
[policy]
verbs = ["learn", "represent"]
max_bytes = "200 MB"
unnoised = "to-host"
budget = {epsilon = 10.0, delta = 1e-5, against = "public"}
approve = false
keep_days = 30
[columns]
age = {min = 18, max = 100}
education = {values = [1, 2, 3, 4]}
"""
SIMULATED = """\
[study]
name = "accept"
algorithm = "fedonce"
task = "classification"
[data]
set = "phishing"
split = "equal"
parties = 4
host = 0
rows = 2000
test = 0.2
[config]
dim = 3
"""


@dataclass(frozen=True)
class Settings:
    encoder: Literal["pca", "nat", "random"] = "pca"
    dim: Annotated[int, Field(ge=1)] = 3
    lr: float | tuple[float, ...] = 1e-3
    hidden: tuple[int, ...] = (64, 64)
    exact: bool = True
    byte_budget: int | None = None
    letters: str = "int8"


@dataclass(frozen=True)
class Baseline:
    dim: int = 8
    epochs: int = 5


@dataclass(frozen=True)
class Wanting:
    clip: float


words = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
lists = st.recursive(scalars.filter(lambda value: value is not None), lambda inner: st.lists(inner, max_size=3), max_leaves=5)
tables = st.recursive(
    st.dictionaries(words, scalars | lists, max_size=4),
    lambda inner: st.dictionaries(words, scalars | lists | inner | st.lists(inner, max_size=2), max_size=4),
    max_leaves=6,
)


def said(problem: type[ReticentError], call: Callable[[], object], folder: Path) -> str:
    """The sentence of the error, the file named without its folder; one line, and nothing chained that a user would be shown."""
    with pytest.raises(problem) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert type(caught.value) is problem
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value).replace(f"{folder}/", "")


def sentences(call: Callable[[], object]) -> int:
    """0 if it went well, 1 if a StudyError said one sentence, more if it said more; any other exception passes."""
    try:
        call()
    except StudyError as error:
        return 1 + str(error).count("\n")
    return 0


def of_study(folder: Path, text: str, *sets: str, seed: int | None = None, wire: str | None = None) -> str:
    path = folder / "study.toml"
    path.write_text(text)
    return said(StudyError, lambda: read_study(path, sets, seed, wire), folder)


def of_party(folder: Path, text: str) -> str:
    path = folder / "party.toml"
    path.write_text(text)
    return said(PartyError, lambda: read_party(path), folder)


def test_the_study_of_the_design_means_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    study = read_study(tmp_path / "study.toml")
    assert study.study.name == "credit-default"
    assert (study.study.wire, study.study.seed, study.study.format) == ("processes", 0, 1)
    assert study.parties is not None
    assert (study.parties.host, study.parties.guests) == ("bank", ("shop", "telco"))
    assert (study.rows.test, study.rows.folds, study.rows.split_by) == (0.2, None, None)
    assert study.config == {"encoder": "pca", "dim": 8}
    assert study.privacy is not None
    assert (study.privacy.epsilon, study.privacy.delta, study.privacy.against, study.privacy.fits) == (4.0, 1e-5, "public", 1)
    assert study.data is None


def test_the_party_file_of_the_design_means_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "party.toml").write_text(PARTY)
    party = read_party(tmp_path / "party.toml")
    assert (party.name, party.table, party.id, party.label) == ("bank", str(tmp_path / "bank.parquet"), "customer_id", "default")
    assert party.path == tmp_path / "party.toml"
    assert party.policy.verbs == ("learn", "represent")
    assert party.policy.max_bytes == 200_000_000
    assert party.policy.budget is not None
    assert (party.policy.budget.epsilon, party.policy.approve, party.policy.keep_days) == (10.0, False, 30)
    assert (party.columns["age"].min, party.columns["age"].max, party.columns["education"].values) == (18.0, 100.0, (1, 2, 3, 4))


def test_a_database_and_an_absolute_table_are_left_as_they_are(tmp_path: Path) -> None:
    for table in ("postgresql://db.local/bank?table=customers", "/srv/bank.csv"):
        (tmp_path / "party.toml").write_text(f'name = "bank"\ntable = "{table}"\nid = "customer"\n')
        assert read_party(tmp_path / "party.toml").table == table


def test_a_simulated_study_needs_no_parties(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SIMULATED)
    data = read_study(tmp_path / "study.toml").data
    assert data is not None
    assert (data.set, data.split, data.host, data.rows, data.test, party_count(data)) == ("phishing", "equal", 0, 2000, 0.2, 4)


@pytest.mark.parametrize(
    "lines, count",
    [
        ('split = "quadrants"\nhost = 3', 4),
        ('split = "halves"', 2),
        ('split = "columns"\ncolumns = [5, 6, 6, 6]', 4),
        ('split = "columns"\ncolumns = [["a", "b"], ["c"]]', 2),
        ('split = "columns"\ncolumns = [13, 10]\nhost = "labels-only"', 2),
        ('split = "views"\nviews = ["pix", "fou", "fac"]', 3),
        ('split = "importance"\nalpha = 0.3\nparties = 5', 5),
        ('split = "dirichlet"\nbeta = 0.5\nparties = 50', 50),
    ],
)
def test_every_split_says_how_many_parties_there_are(lines: str, count: int) -> None:
    tree = tomllib.loads(f'[study]\nname = "x"\nalgorithm = "solo"\ntask = "regression"\n[data]\nset = "mnist"\n{lines}\n')
    data = study_from(tree).data
    assert data is not None
    assert party_count(data) == count


PARTY_NAME = "a name of letters, digits, -, _ and ., at most 63, the first a letter or digit"
QUOTES = "(allowed: key = value, texts in quotes)"
STUDY_SECTIONS = "columns, compare, config, data, parties, privacy, rows, study"
STUDY_KEYS = "algorithm, format, name, seed, task, wire"
DATA_KEYS = "alpha, beta, columns, folds, host, label, modules, names, parties, rows, seed, set, split, split_by, test, views"


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        ('name = "credit-default"', 'nam = "x"', f"study.toml, line 3: unknown key \"nam\", did you mean 'name'? (allowed: {STUDY_KEYS})"),
        ("[rows] ", "[row] ", f"study.toml, line 10: unknown section \"row\", did you mean 'rows'? (allowed: {STUDY_SECTIONS})"),
        ("[study]", "nonsense = 3\n[study]", f'study.toml, line 2: unknown key "nonsense" (allowed: {STUDY_SECTIONS})'),
        ("[privacy]", '[features]\nselect = "variance"\n[privacy]', f'study.toml, line 15: unknown section "features" (allowed: {STUDY_SECTIONS})'),
        ("test = 0.2", 'test = "0.2"', 'study.toml, line 11: test = "0.2" (allowed: a number, above 0, below 1)'),
        ("test = 0.2", "test = 1.5", "study.toml, line 11: test = 1.5 (allowed: a number, above 0, below 1)"),
        ("test = 0.2", "folds = 2.0", "study.toml, line 11: folds = 2.0 (allowed: a whole number, at least 2)"),
        ("test = 0.2", "folds = true", "study.toml, line 11: folds = true (allowed: a whole number, at least 2)"),
        (
            '"classification" ',
            '"clasification"',
            'study.toml, line 5: task = "clasification", did you mean \'classification\'? (allowed: "classification" or "regression")',
        ),
        ('"processes"', '"tcp"', 'study.toml, line 6: wire = "tcp" (allowed: "inprocess" or "processes" or "flare")'),
        (
            '["shop", "telco"]',
            '"shop"',
            f'study.toml, line 9: guests = "shop" (allowed: a list (each: {PARTY_NAME}), not empty)',
        ),
        (
            '["shop", "telco"]',
            "[]",
            f"study.toml, line 9: guests = [] (allowed: a list (each: {PARTY_NAME}), not empty)",
        ),
        (
            'host = "bank"',
            'host = "../bank"',
            'study.toml, line 8: host = "../bank" (allowed: a name of letters, digits, -, _ and ., at most 63, the first a letter or digit)',
        ),
        ('"telco"', '"bank"', 'study.toml, line 9: "bank" stands twice among host and guests; every party needs a name of its own'),
        ("delta = 1e-5\n", "", "study.toml, line 15: [privacy] has no delta; add delta = … (allowed: a number, at least 0, below 1)"),
        ("epsilon = 4.0", "epsilon = inf", "study.toml, line 16: epsilon = inf (allowed: a number, above 0)"),
        ("epsilon = 4.0", "epsilon = nan", "study.toml, line 16: epsilon = nan is not a number; write one, or leave the key out"),
        ("dim = 8", "since = 2024-01-31", 'study.toml, line 14: since = 2024-01-31 is a date without quotes; write "2024-01-31"'),
        ("[study]", "[study]\nformat = 2", "study.toml, line 3: format = 2, but this version of reticent reads format 1; use the version that wrote it"),
        ("[study]", '[study]\nformat = "1"', 'study.toml, line 3: format = "1" (allowed: a whole number)'),
        ("dim = 8", "dim = eight", "study.toml, line 14: this is not TOML: invalid value at column 7 of `dim = eight` (allowed: key = value, texts in quotes)"),
        (
            "dim = 8",
            'encoder = "nat"',
            'study.toml, line 14: this is not TOML: cannot overwrite a value at column 16 of `encoder = "nat"` (allowed: key = value, texts in quotes)',
        ),
        (
            'against = "public"\n',
            "against = [",
            "study.toml, line 18: this is not TOML: invalid value where the file ends of `against = [` (allowed: key = value, texts in quotes)",
        ),
        (
            "test = 0.2",
            'split_by = "date"\nfolds = 5',
            'study.toml, line 12: folds = 5 deals rows by chance and split_by = "date" by order; leave one of them out',
        ),
        (
            "[privacy]",
            "[columns]\nage = {min = 1, max = 2}\n[privacy]",
            "study.toml, line 15: [columns] stands beside [parties]; declare a column's bounds in the file of the party that holds it",
        ),
        (
            "[privacy]",
            '[data]\nset = "phishing"\nparties = 2\n[privacy]',
            "study.toml, line 15: [data] and [parties] are both there; keep [data] to simulate the parties here, or [parties] for parties with files",
        ),
    ],
)
def test_a_mistake_in_a_study_is_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert STUDY.count(old) >= 1
    assert of_study(tmp_path, STUDY.replace(old, new, 1)) == sentence


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        ("host = 0", "host = 7", 'study.toml, line 9: host = 7, but there are 4 parties (allowed: 0 to 3, or "labels-only")'),
        (
            "host = 0",
            'host = "label-only"',
            'study.toml, line 9: host = "label-only", did you mean \'labels-only\'? (allowed: a whole number, at least 0 or "labels-only")',
        ),
        ("parties = 4", "", 'study.toml, line 7: split = "equal" needs parties, which is not there; add parties = … to [data]'),
        (
            '"equal"',
            '"quadrant"',
            "study.toml, line 7: split = \"quadrant\", did you mean 'quadrants'? (allowed: "
            + '"equal" or "quadrants" or "halves" or "views" or "columns" or "importance" or "dirichlet")',
        ),
        ('"equal"', '"halves"', 'study.toml, line 8: parties = 4, but split = "halves" makes 2; leave parties out'),
        ('"equal"', '"dirichlet"', 'study.toml, line 7: split = "dirichlet" needs beta, which is not there; add beta = … to [data]'),
        ("rows = 2000", "alpha = 0.3", 'study.toml, line 10: alpha = 0.3 serves split = "importance" only, and split is "equal"; change one of them'),
        ("rows = 2000", "rows = 0", "study.toml, line 10: rows = 0 (allowed: a whole number, at least 1)"),
        ("rows = 2000", "overlap = 1000", f'study.toml, line 10: unknown key "overlap" (allowed: {DATA_KEYS})'),
        (
            "rows = 2000",
            "columns = [1, 'a']",
            'study.toml, line 10: columns = [1, "a"] (allowed: '
            "a list (each: a whole number, at least 1) or a list (each: a list (each: a text, not empty)), not empty)",
        ),
        ('"phishing"', '"bank.csv"', 'study.toml, line 6: set = "bank.csv" is a file, and label is not there; add label = … to [data]'),
        ('set = "phishing"\n', "", "study.toml, line 5: [data] has no set; add set = … (allowed: a text, not empty)"),
        ("[config]", "[rows]\ntest = 0.1\n[config]", "study.toml, line 12: [rows] stands beside [data]; write test, split_by and folds into [data]"),
        ("[config]", "[columns]\nage = 3\n[config]", "study.toml, line 13: age = 3 (allowed: a table)"),
        ("[config]", "[columns]\nage = {min = 3}\n[config]", "study.toml, line 13: age has min (allowed: {min = …, max = …} or {values = […]})"),
        ("[config]", "[columns]\nage = {min = 3, max = 3}\n[config]", "study.toml, line 13: age has min = 3 and max = 3 (allowed: min below max)"),
        ("[config]", "[columns]\nage = {}\n[config]", "study.toml, line 13: age has nothing (allowed: {min = …, max = …} or {values = […]})"),
        (
            "[config]",
            '[columns]\nage = {values = ["a", "a"]}\n[config]',
            'study.toml, line 13: age has values = ["a", "a"], one of them twice; write each once',
        ),
        ("[config]", "[compare]\nsplitnn = 3\n[config]", "study.toml, line 13: splitnn = 3 (allowed: a table)"),
        (
            "[study]",
            "[[study]]",
            'study.toml, line 1: study = [{name = "accept", algorithm = "fedonce", task = "classification"}] (allowed: a table with name, algorithm, task)',
        ),
    ],
)
def test_a_mistake_in_simulated_data_is_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert SIMULATED.count(old) == 1
    assert of_study(tmp_path, SIMULATED.replace(old, new)) == sentence


@pytest.mark.parametrize(
    "old, new, sentence",
    [
        (
            "label =",
            "lable =",
            "party.toml, line 4: unknown key \"lable\", did you mean 'label'? (allowed: columns, drop, id, label, module, name, policy, table)",
        ),
        ("label =", "task =", 'party.toml, line 4: unknown key "task" (allowed: columns, drop, id, label, module, name, policy, table)'),
        ('"200 MB"', '"a lot"', 'party.toml, line 7: max_bytes = "a lot" (allowed: a number of bytes, at least 1, as in 200000000, "200 MB" or "64 KiB")'),
        ('"200 MB"', "0", 'party.toml, line 7: max_bytes = 0 (allowed: a number of bytes, at least 1, as in 200000000, "200 MB" or "64 KiB")'),
        ('"to-host"', '"always"', 'party.toml, line 8: unnoised = "always" (allowed: "to-host" or "never")'),
        ("epsilon = 10.0", "epsilon = 0", "party.toml, line 9: epsilon = 0 (allowed: a number, above 0)"),
        ("epsilon = 10.0, ", "", "party.toml, line 9: [policy.budget] has no epsilon; add epsilon = … (allowed: a number, above 0)"),
        ("epsilon = 10.0", "eps = 10.0", "party.toml, line 9: unknown key \"eps\", did you mean 'epsilon'? (allowed: against, delta, epsilon)"),
        ("approve = false", 'approve = "no"', 'party.toml, line 10: approve = "no" (allowed: true or false)'),
        ('id = "customer_id"\n', "", "party.toml: there is no id; add it (allowed: a text, not empty)"),
        ("max = 100", "max = 8", "party.toml, line 13: age has min = 18 and max = 8 (allowed: min below max)"),
        ('"bank.parquet"', "3", "party.toml, line 2: table = 3 (allowed: a text, not empty)"),
        (
            '"default"',
            "[]",
            "party.toml, line 4: label = [] (allowed: a text, not empty or a list (each: a text, not empty), not empty)",
        ),
    ],
)
def test_a_mistake_in_a_party_file_is_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert PARTY.count(old) == 1
    assert of_party(tmp_path, PARTY.replace(old, new)) == sentence


def test_a_study_without_its_sections_says_which_are_needed(tmp_path: Path) -> None:
    assert of_study(tmp_path, "") == "study.toml: there is no [study]; add it (allowed: a table with name, algorithm, task)"
    assert of_study(tmp_path, "[study]\nname = 'x'\n") == "study.toml, line 1: [study] has no algorithm; add algorithm = … (allowed: a text, not empty)"
    neither = "study.toml: there is neither [parties] nor [data]; name host and guests in [parties], or a set to simulate them with in [data]"
    assert of_study(tmp_path, SIMULATED.split("[data]")[0]) == neither


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    missing = said(StudyError, lambda: read_study(path), tmp_path)
    assert missing == "study.toml: there is no such file; `reticent init` writes one to start from"
    folder = said(PartyError, lambda: read_party(tmp_path), tmp_path.parent)
    assert folder.endswith(": it cannot be read (is a directory); name a TOML file that you may read")
    path.write_bytes(b'[study]\nname = "caf\xe9"\n')
    assert said(StudyError, lambda: read_study(path), tmp_path) == "study.toml, line 2: byte 0xe9 is not UTF-8; save the file as UTF-8 text"
    path.write_text("x = " + "[" * 100_000)
    assert "nested too deeply" in said(StudyError, lambda: read_study(path), tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + SIMULATED.replace("\n", "\r\n").encode())
    assert read_study(path).config == {"dim": 3}


def test_a_sentence_shows_no_password_of_a_database(tmp_path: Path) -> None:
    text = PARTY.replace('table = "bank.parquet"', "table = postgresql://amy:hush@db/bank")
    assert "hush" not in of_party(tmp_path, text)
    assert "hush" not in of_party(tmp_path, PARTY.replace('label = "default"', 'label = ["postgresql://amy:hush@db", 3]'))


def test_the_command_line_sets_values_as_toml_or_else_as_text(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(SIMULATED)
    sets = [
        "config.dim=16",
        "config.letters=float32",
        "config.lr=[1e-4, 1e-3]",
        "config.exact = true",
        'config."own key"=2020-01-01',
        "data.parties=10",
        "compare.splitnn.lr=1e-2",
    ]
    study = read_study(path, sets, seed=4, wire="flare")
    assert study.config == {"dim": 16, "letters": "float32", "lr": [1e-4, 1e-3], "exact": True, "own key": "2020-01-01"}
    assert study.compare == {"splitnn": {"lr": 0.01}}
    assert study.data is not None
    assert (study.data.parties, study.study.seed, study.study.wire) == (10, 4, "flare")


@pytest.mark.parametrize(
    "word, sentence",
    [
        ("data.parties=ten", '--set data.parties=ten: parties = "ten" (allowed: a whole number, at least 1)'),
        ("data.host=9", '--set data.host=9: host = 9, but there are 4 parties (allowed: 0 to 3, or "labels-only")'),
        ("data.spilt=equal", f"--set data.spilt=equal: unknown key \"spilt\", did you mean 'split'? (allowed: {DATA_KEYS})"),
        ("dim", "--set dim: this is no setting (allowed: section.key=value, as in config.dim=16)"),
        ("config dim=3", "--set config dim=3: this is no setting (allowed: section.key=value, as in config.dim=16)"),
        ("=3", "--set =3: this is no setting (allowed: section.key=value, as in config.dim=16)"),
        ("study.name.first=3", '--set study.name.first=3: study.name is "accept", not a table, so it has no first'),
        ("data=3", "--set data=3: data = 3 (allowed: a table with set)"),
    ],
)
def test_a_mistake_on_the_command_line_says_so(tmp_path: Path, word: str, sentence: str) -> None:
    assert of_study(tmp_path, SIMULATED, "config.dim=5", word) == sentence


def test_seed_and_wire_are_named_as_options(tmp_path: Path) -> None:
    assert of_study(tmp_path, SIMULATED, seed=-1) == "--seed -1: seed = -1 (allowed: a whole number, at least 0, below 9223372036854775808)"
    assert (
        of_study(tmp_path, SIMULATED, wire="flair") == '--wire flair: wire = "flair", did you mean \'flare\'? (allowed: "inprocess" or "processes" or "flare")'
    )


def test_a_study_from_python_names_the_section_where_there_is_no_line(tmp_path: Path) -> None:
    tree = tomllib.loads(SIMULATED)
    tree["data"]["parties"] = "ten"
    assert said(StudyError, lambda: study_from(tree), tmp_path) == 'study [data]: parties = "ten" (allowed: a whole number, at least 1)'
    tree["data"]["parties"] = {1, 2}
    assert said(StudyError, lambda: study_from(tree), tmp_path).startswith("study [data]: parties is of type set, which a TOML file cannot hold; use ")


def test_a_study_compares_by_its_values_and_cannot_be_changed(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SIMULATED)
    study = read_study(tmp_path / "study.toml")
    assert study == study_from(tomllib.loads(SIMULATED))
    with pytest.raises(ValueError, match="frozen"):
        study.study = study.study  # type: ignore[misc]


def test_configure_builds_the_algorithms_record() -> None:
    assert configure(Settings, {}, "study.toml") == Settings()
    made = configure(Settings, {"encoder": "nat", "dim": 16, "lr": [1, 1e-2], "hidden": [8], "byte_budget": 100}, "study.toml")
    assert made == Settings(encoder="nat", dim=16, lr=(1.0, 0.01), hidden=(8,), byte_budget=100)
    whole = configure(Settings, {"lr": 1}, "study.toml").lr
    assert (whole, type(whole)) == (1.0, float)
    assert configure(Settings, {"hidden": (3, 4), "byte_budget": None}, "fit") == Settings(hidden=(3, 4))


SETTINGS = "byte_budget, dim, encoder, exact, hidden, letters, lr"


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("nonsense = 3", f'study.toml, line 14: unknown key "nonsense" (allowed: {SETTINGS})'),
        ("encodr = 'pca'", f"study.toml, line 14: unknown key \"encodr\", did you mean 'encoder'? (allowed: {SETTINGS})"),
        ("encoder = 'pcs'", 'study.toml, line 14: encoder = "pcs", did you mean \'pca\'? (allowed: "pca" or "nat" or "random")'),
        ("hidden = ['64']", 'study.toml, line 14: hidden = ["64"] (allowed: a list (each: a whole number))'),
        ("hidden = [\n  64,\n  6.5, # no\n]", "study.toml, line 14: hidden = [64, 6.5] (allowed: a list (each: a whole number))"),
        ("lr = 'fast'", 'study.toml, line 14: lr = "fast" (allowed: a number or a list (each: a number))'),
        ("exact = 1", "study.toml, line 14: exact = 1 (allowed: true or false)"),
        ("byte_budget = 1.5", "study.toml, line 14: byte_budget = 1.5 (allowed: a whole number)"),
        ("letters = 8", "study.toml, line 14: letters = 8 (allowed: a text)"),
    ],
)
def test_a_mistake_in_config_names_its_line(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "study.toml").write_text(f"{SIMULATED}{line}\n")  # TOML puts a stray key into the last section
    study = read_study(tmp_path / "study.toml")
    assert said(StudyError, lambda: configure(Settings, study.config, study.place("config")), tmp_path) == sentence


def test_configure_refuses_what_no_file_can_say(tmp_path: Path) -> None:
    assert said(StudyError, lambda: configure(Settings, {"dim": True}, "fit"), tmp_path) == "fit: dim = true (allowed: a whole number, at least 1)"
    assert said(StudyError, lambda: configure(Settings, {"dim": 0}, "fit"), tmp_path) == "fit: dim = 0 (allowed: a whole number, at least 1)"
    assert said(StudyError, lambda: configure(Settings, {"dim": None}, "fit"), tmp_path).startswith("fit: dim is None, which a file cannot say")
    assert said(StudyError, lambda: configure(Settings, {"lr": math.nan}, "fit"), tmp_path).startswith("fit: lr = nan is not a number")
    assert said(StudyError, lambda: configure(Settings, {"letters": object()}, "fit"), tmp_path).startswith(
        "fit: letters is of type object, which a TOML file cannot hold"
    )
    assert said(StudyError, lambda: configure(Wanting, {}, "fit"), tmp_path) == "fit: there is no clip; add clip = … (allowed: a number)"
    assert "is no dataclass" in said(StudyError, lambda: configure(int, {}, "fit"), tmp_path)


def test_a_baseline_takes_the_fields_it_has() -> None:
    assert fields_shared(Baseline, {"dim": 3, "encoder": "pca"}) == {"dim": 3}


def test_the_effective_study_has_every_default_and_no_wire() -> None:
    tree = effective(study_from(tomllib.loads(SIMULATED)), Settings(dim=3))
    assert tree == {
        "study": {"format": 1, "name": "accept", "algorithm": "fedonce", "task": "classification", "seed": 0},
        "data": {"set": "phishing", "split": "equal", "parties": 4, "host": 0, "rows": 2000, "test": 0.2},
        "config": {"encoder": "pca", "dim": 3, "lr": 1e-3, "hidden": [64, 64], "exact": True, "letters": "int8"},
        "compare": {},
        "columns": {},
    }


@pytest.mark.parametrize("text", [STUDY, SIMULATED])
def test_a_study_written_and_read_again_has_the_same_hash(text: str) -> None:
    study = study_from(tomllib.loads(text))
    tree = effective(study, configure(Settings, study.config, "study.toml"))
    again = study_from(tomllib.loads(write_toml(tree)))
    assert effective(again, configure(Settings, again.config, "study.toml")) == tree
    assert study_hash(tomllib.loads(write_toml(tree)), "ab") == study_hash(tree, "ab")


def test_the_hash_is_of_canonical_json() -> None:
    tree = {"study": {"seed": 0, "name": "é"}, "config": {"lr": 1e-5, "hidden": [64]}}
    canonical = b'{"config":{"hidden":[64],"lr":1e-05},"study":{"name":"\\u00e9","seed":0}}'
    assert study_hash(tree, None) == hashlib.sha256(canonical).hexdigest()
    assert study_hash(tree, "00") == hashlib.sha256(canonical.replace(b',"study"', b',"data_sha256":"00","study"')).hexdigest()


def test_the_wire_is_no_part_of_the_hash_and_all_else_is(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(SIMULATED)

    def digest(*sets: str, wire: str | None = None, seed: int | None = None) -> str:
        study = read_study(path, sets, seed, wire)
        return study_hash(effective(study, configure(Settings, study.config, study.place("config"))), "ab")

    assert digest(wire="processes") == digest() == digest("study.seed=0", "config.encoder=pca")
    assert len({digest(), digest(seed=1), digest("config.dim=4"), digest("data.rows=1000"), digest("compare.splitnn.lr=0.1")}) == 5


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_to_a_study_is_a_study_or_one_sentence(data: st.DataObject) -> None:
    tree = tomllib.loads(data.draw(st.sampled_from([STUDY, SIMULATED])))
    section = data.draw(st.sampled_from([*tree, "columns", "compare", "nonsense"]))
    keys = [*tree.get(section, []), "label", "columns", "views", "folds", "min", "format"]
    if data.draw(st.booleans()):
        tree[section] = data.draw(scalars | lists | tables)
    else:
        tree.setdefault(section, {})[data.draw(st.sampled_from(keys) | words)] = data.draw(scalars | lists | tables)
    assert sentences(lambda: study_from(tree)) <= 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20), st.text(st.characters(), max_size=20))
def test_any_text_and_any_setting_is_a_study_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, text: str, word: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    for written, sets in ((text, ()), (SIMULATED + text, ()), (SIMULATED, (word,)), (SIMULATED, (f"study.name={word}",))):
        path.write_text(written, encoding="utf-8")
        assert sentences(lambda: read_study(path, sets)) <= 1  # noqa: B023 - called at once


def test_bytes_of_the_command_line_that_are_no_text_are_refused(tmp_path: Path) -> None:
    sentence = '--set study.name=\\udcff: name = "\\udcff" holds half a letter, which no UTF-8 file can hold; write whole ones'
    assert of_study(tmp_path, SIMULATED, "study.name=\udcff") == sentence


def pruned(value: object) -> object:
    if isinstance(value, dict):
        return {key: pruned(item) for key, item in value.items() if item is not None}
    return [pruned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=300, deadline=None)
@given(tables)
def test_what_is_written_reads_back(tree: dict[str, object]) -> None:
    assert tomllib.loads(write_toml(tree)) == pruned(tree)


@settings(max_examples=100, deadline=None)
@given(tables)
def test_every_key_written_is_found_on_a_line_that_holds_it(tree: dict[str, object]) -> None:
    text = write_toml(tree)
    lines = text.split("\n")
    found = key_lines(text)
    assert {(str(key),) for key in tomllib.loads(text)} <= set(found) | {()}
    assert all(keys[-1] in lines[line - 1] or "\\" in lines[line - 1] for keys, line in found.items())


def test_lines_are_found_through_every_form_of_toml() -> None:
    text = '# a\n[a]\nx = """\n[no]\ny = 1\n"""\n"b.c" = [\n  "[no]", # ]\n  1,\n]\nd.e = {f = 1}\n\n[[list]]\n  g = 2\n[h.i]\nj = \'#\'\n'
    assert key_lines(text) == {
        ("a",): 2,
        ("a", "x"): 3,
        ("a", "b.c"): 7,
        ("a", "d"): 11,
        ("a", "d", "e"): 11,
        ("a", "d", "e", "f"): 11,
        ("list",): 13,
        ("list", "g"): 14,
        ("h", "i"): 15,
        ("h", "i", "j"): 16,
    }


@pytest.mark.parametrize(
    "text, count",
    [
        ("200 MB", 200_000_000),
        ("200M", 200_000_000),
        ("1.5 GB", 1_500_000_000),
        ("64 KiB", 65_536),
        ("2Gi", 2 * 1024**3),
        ("10 k", 10_000),
        ("7", 7),
        ("7 bytes", 7),
    ],
)
def test_bytes_may_be_written_as_people_write_them(text: str, count: int) -> None:
    assert byte_count(text) == count


@pytest.mark.parametrize("text", ["", "MB", "-1 MB", "1e3", "5 iB", "1 PB", "9" * 400])
def test_other_texts_are_no_bytes(text: str) -> None:
    assert byte_count(text) == text


def keys_described(text: str) -> set[str]:
    return (
        set(re.findall(r"^(?:# )?(\w+) = .* # ", text, re.MULTILINE))
        | set(re.findall(r"^(?:# )?\[(\w+)\]", text, re.MULTILINE))
        | set(re.findall(r"[{ ](\w+) = ", text))
    )


def keys_of(*models: type[BaseModel]) -> set[str]:
    return {key for model in models for key in model.model_fields}


def test_the_files_of_init_are_valid_and_explain_every_key(tmp_path: Path) -> None:
    study, party = describe_study(), describe_party()
    assert study_from(tomllib.loads(study)).parties is not None
    (tmp_path / "party.toml").write_text(party)
    assert read_party(tmp_path / "party.toml").policy.max_bytes == 200_000_000
    shown = keys_of(module.Study, module.Purpose, module.Parties, module.RowSplit, module.Simulation, module.PrivacyTarget, module.Bounds)
    assert shown - {"compare"} <= keys_described(study)
    assert keys_of(module.PartyFile, module.PartyPolicy, module.Budget, module.Bounds) <= keys_described(party)
    for text in (study, party):
        assert all("#" in line.removeprefix("# ") for line in text.splitlines() if re.match(r"(# )?\w+ = ", line))


def test_the_optional_lines_of_init_are_valid_once_uncommented(tmp_path: Path) -> None:
    optional = re.compile(r"^# (?=\[|\w+ = )", re.MULTILINE)
    (tmp_path / "party.toml").write_text(optional.sub("", describe_party()))
    assert read_party(tmp_path / "party.toml").module == "bank.nets.Encoder"
    text = optional.sub("", describe_study())
    uncommented = tomllib.loads(text)
    del uncommented["parties"], uncommented["rows"]
    for key in ("columns", "views", "alpha", "beta", "split_by"):  # each belongs to one split alone
        del uncommented["data"][key]
    study = study_from(uncommented)
    assert (study.compare, study.privacy is not None, study.columns["education"].values) == ({"splitnn": {"lr": 1e-3}}, True, (1, 2))
