"""Study and PartyFile: the two files people write. What a file cannot mean is refused in one sentence, with its line.

A study is the same at every party, and its hash is in every letter; a party file is private and never sent.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from reticent.errors import PartyError, StudyError
from reticent.toml import Keys, Source, checked, clip, override, plain, read, show, unknown, words, wrong
from reticent.toml import write_toml as write_toml

FORMAT = 1

C = TypeVar("C")

byte_units = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
parts_by_split = {"quadrants": 4, "halves": 2}
needs_by_split = {"views": "views", "columns": "columns", "importance": "alpha", "dirichlet": "beta"}


def byte_count(said: object) -> object:
    """Bytes of `200 MB`, `1.5 GB`, `64 KiB`; what is no such text is given back for the field's type to refuse."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)(?:b|bytes)?\s*", said, re.IGNORECASE) if isinstance(said, str) else None
    if found is None or (found[3] and not found[2]):
        return said
    return round(float(found[1]) * (1024 if found[3] else 1000) ** byte_units[found[2].lower()])


# a party's name becomes a file's name and a certificate's, so it may not leave a folder
Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$", description="a name of letters, digits, -, _ and ., at most 63, the first a letter or digit")
]
Text = Annotated[str, Field(min_length=1)]
Labels = Text | Annotated[tuple[Text, ...], Field(min_length=1)] | None
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
ByteCount = Annotated[int, BeforeValidator(byte_count), Field(ge=1, description='a number of bytes, at least 1, as in 200000000, "200 MB" or "64 KiB"')]
Against = Literal["public", "host"]


class Section(BaseModel):
    """A table of a file: nothing unknown in it, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Purpose(Section):
    """[study]"""

    format: int = FORMAT  # of the file; another number is refused
    name: Text  # for reports
    algorithm: Text  # a module of reticent.algorithms, or a dotted path
    task: Literal["classification", "regression"]  # what the label is
    wire: Literal["inprocess", "processes", "flare"] = "inprocess"  # what carries letters; no part of the hash
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0  # of splits, samples, first weights; never of noise


class Parties(Section):
    """[parties]"""

    host: Name  # drives the run
    guests: Annotated[tuple[Name, ...], Field(min_length=1)]  # in the order in which replies are used


class RowSplit(Section):
    """[rows]"""

    test: Share = 0.2  # share of the common rows that tests
    split_by: Text | None = None  # a column of the host's; its last rows test
    folds: Annotated[int, Field(ge=2)] | None = None  # cross-validation instead of one split


class PrivacyTarget(Section):
    """[privacy]"""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)]
    against: Against = "public"  # who sees what is released: the models, or the representations too
    fits: Count = 1  # how many fits on the same people the target pays for


class Bounds(Section):
    """A column of [columns]: its range, or its categories."""

    min: float | None = None
    max: float | None = None
    values: Annotated[tuple[bool | int | float | str, ...], Field(min_length=1)] | None = None


class Simulation(Section):
    """[data]: one table dealt to parties that all run on this machine."""

    set: Text  # a loader's name, or a path
    label: Labels = None  # of a set that has several, or of a path
    split: Literal["equal", "quadrants", "halves", "views", "columns", "importance", "dirichlet"] = "equal"  # how columns or rows are dealt
    parties: Count | None = None  # how many, the host one of them; views, columns, quadrants and halves say it themselves
    host: Annotated[int, Field(ge=0)] | Literal["labels-only"] = 0  # who holds the labels
    names: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None  # of the parties; None: p0, p1, …
    modules: dict[Name, Text] | None = None  # by party: dotted path of an nn.Module of its own
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None  # of the split and the sample; None: the study's
    columns: Annotated[tuple[Count, ...] | tuple[tuple[Text, ...], ...], Field(min_length=1)] | None = None  # of each party: how many, or which
    views: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None  # a view a party
    alpha: Positive | None = None  # of the importance split
    beta: Positive | None = None  # of the Dirichlet split
    rows: Count | None = None  # a seeded sample of the training rows
    test: Share | None = None  # share to test; None: the set's own test part
    split_by: Text | None = None  # a column; its last rows test
    folds: Annotated[int, Field(ge=2)] | None = None  # cross-validation instead of one split


class Study(Section):
    """study.toml: what is to be learnt, the same at every party."""

    study: Purpose
    parties: Parties | None = None  # either these, with a file each,
    data: Simulation | None = None  # or data to deal to parties made up here
    rows: RowSplit = RowSplit()  # beside [parties]
    config: dict[str, Any] = {}  # the algorithm's Config, checked by `configure`
    compare: dict[str, dict[str, Any]] = {}  # settings of baselines, by name
    privacy: PrivacyTarget | None = None
    columns: dict[str, Bounds] = {}  # declared bounds, for a set given by path
    _source: Source = PrivateAttr(default=Source("study"))

    def place(self, *section: str) -> Callable[[str], str]:
        """Where a key of this section stands, for `configure`: `place("config")("dim")` is `study.toml, line 12`."""
        return lambda key: self._source.at((*section, key))


class Budget(Section):
    """What a party may spend over all runs."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)]
    against: Against = "public"


class PartyPolicy(Section):
    """[policy]: the operator's rules for what leaves."""

    verbs: tuple[Text, ...] | None = None  # which may be answered; None: all
    max_bytes: ByteCount | None = None  # outgoing, a run
    unnoised: Literal["to-host", "never"] = "to-host"  # whether tensors without noise may leave
    budget: Budget | None = None
    approve: bool = False  # a person confirms before the first letter leaves
    keep_days: Count | None = None  # how long the host may keep what this party sent


class PartyFile(Section):
    """party.toml: one organisation's table and rules."""

    name: Name
    table: Text  # a file, absolute once read, or a database's URL
    id: Text  # the column that names a row
    label: Labels = None  # the host's
    drop: tuple[Text, ...] = ()  # columns that take no part
    module: str = ""  # dotted path of the party's own nn.Module
    policy: PartyPolicy = PartyPolicy()
    columns: dict[str, Bounds] = {}  # declared bounds, the label's too
    _source: Source = PrivateAttr(default=Source("party"))

    @property
    def path(self) -> Path | None:
        """The file this was read from; its budget file lies beside it."""
        return self._source.path


def read_study(path: Path, sets: Sequence[str] = (), seed: int | None = None, wire: str | None = None) -> Study:
    """The study at `path` after `--set`, `--seed` and `--wire`; StudyError with one sentence if it cannot be meant."""
    text, tree = read(path, StudyError)
    overrides = [(override(tree, word), f"--set {clip(word)}") for word in sets]
    overrides += [(override(tree, f"study.{key}={value}"), f"--{key} {value}") for key, value in (("seed", seed), ("wire", wire)) if value is not None]
    return checked_study(tree, Source(str(path), text, path, overrides))


def study_from(tree: Mapping[str, object]) -> Study:
    return checked_study(tree, Source("study"))


def checked_study(tree: Mapping[str, object], source: Source) -> Study:
    purpose = tree.get("study")
    found = purpose.get("format", FORMAT) if isinstance(purpose, Mapping) else FORMAT
    if type(found) is int and found != FORMAT:  # before anything else: another format may mean other keys
        here = source.at(("study", "format"))
        raise StudyError(f"{here}: format = {found}, but this version of reticent reads format {FORMAT}; use the version that wrote it")
    study = checked(Study, tree, source, StudyError)
    for path, sentence in impossible(study, tree):
        raise StudyError(f"{source.at(path)}: {sentence}")
    study._source = source
    return study


def read_party(path: Path) -> PartyFile:
    """The party file at `path`, its table's path taken from the file's folder; PartyError with one sentence if it cannot be meant."""
    text, tree = read(path, PartyError)
    source = Source(str(path), text, path)
    if isinstance(table := tree.get("table"), str) and table and "://" not in table:
        tree["table"] = str(path.absolute().parent / table)
    party = checked(PartyFile, tree, source, PartyError)
    for keys, sentence in impossible_bounds(party.columns):
        raise PartyError(f"{source.at(keys)}: {sentence}")
    party._source = source
    return party


def party_count(data: Simulation) -> int:
    """How many parties share out the columns or the rows; a labels-only host comes on top."""
    stated = data.views if data.split == "views" else data.columns if data.split == "columns" else None
    return len(stated) if stated else parts_by_split.get(data.split, data.parties or 0)


def impossible(study: Study, tree: Mapping[str, object]) -> Iterator[tuple[Keys, str]]:
    """What no single key shows: the key to look at, and a sentence."""
    if study.parties and study.data:
        yield ("data",), "[data] and [parties] are both there; keep [data] to simulate the parties here, or [parties] for parties with files"
    if study.parties:
        twice = sorted({name for name in (study.parties.host, *study.parties.guests) if (study.parties.host, *study.parties.guests).count(name) > 1})
        if twice:
            yield ("parties", "guests"), f'"{twice[0]}" stands twice among host and guests; every party needs a name of its own'
        if study.columns:
            yield ("columns",), "[columns] stands beside [parties]; declare a column's bounds in the file of the party that holds it"
        yield from impossible_folds(study.rows, "rows")
    elif study.data:
        if "rows" in tree:
            yield ("rows",), "[rows] stands beside [data]; write test, split_by and folds into [data]"
        yield from impossible_data(study.data)
        yield from impossible_folds(study.data, "data")
    else:
        yield (), "there is neither [parties] nor [data]; name host and guests in [parties], or a set to simulate them with in [data]"
    yield from impossible_bounds(study.columns)


def impossible_folds(rows: RowSplit | Simulation, section: str) -> Iterator[tuple[Keys, str]]:
    if rows.folds and rows.split_by:
        yield (section, "folds"), f'folds = {rows.folds} deals rows by chance and split_by = "{rows.split_by}" by order; leave one of them out'


def impossible_data(data: Simulation) -> Iterator[tuple[Keys, str]]:
    for split, needed in needs_by_split.items():
        if data.split == split and getattr(data, needed) is None:
            yield ("data", "split"), f'split = "{split}" needs {needed}, which is not there; add {needed} = … to [data]'
        if data.split != split and getattr(data, needed) is not None:
            yield ("data", needed), f'{needed} = {show(getattr(data, needed))} serves split = "{split}" only, and split is "{data.split}"; change one of them'
    count = party_count(data)
    if not count:
        yield ("data", "split"), f'split = "{data.split}" needs parties, which is not there; add parties = … to [data]'
    if data.parties not in (None, count):
        yield ("data", "parties"), f'parties = {data.parties}, but split = "{data.split}" makes {count}; leave parties out'
    if isinstance(data.host, int) and data.host >= count:
        yield ("data", "host"), f'host = {data.host}, but there are {count} parties (allowed: 0 to {count - 1}, or "labels-only")'
    if data.label is None and Path(data.set).suffix.lower() in (".parquet", ".csv", ".arrow", ".feather"):
        yield ("data", "set"), f"set = {show(data.set)} is a file, and label is not there; add label = … to [data]"


def impossible_bounds(columns: Mapping[str, Bounds]) -> Iterator[tuple[Keys, str]]:
    for name, bounds in columns.items():
        ends = [end for end in (bounds.min, bounds.max) if end is not None]
        if (bounds.values is None) == (not ends) or (ends and len(ends) < 2):
            yield (
                ("columns", name),
                f"{clip(name)} has {', '.join(sorted(bounds.model_fields_set)) or 'nothing'} (allowed: {{min = …, max = …}} or {{values = […]}})",
            )
        elif ends and ends[0] >= ends[1]:
            yield ("columns", name), f"{clip(name)} has min = {ends[0]:g} and max = {ends[1]:g} (allowed: min below max)"
        elif bounds.values and len(set(bounds.values)) < len(bounds.values):
            yield ("columns", name), f"{clip(name)} has values = {show(bounds.values)}, one of them twice; write each once"


def configure(config_class: type[C], values: Mapping[str, object], where: str | Callable[[str], str]) -> C:
    """An algorithm's Config from [config]; StudyError with one sentence if a name or a value is none of its.

    `where` begins the sentence: a text, or `study.place("config")`, which knows the line of each key.
    """
    if not dataclasses.is_dataclass(config_class):
        raise StudyError(f"{config_class.__qualname__} is no dataclass, so nothing says what it allows; write @dataclass(frozen=True) above it")
    known = {field.name: field for field in dataclasses.fields(config_class) if field.init}
    kinds = get_type_hints(config_class, include_extras=True)
    settled = {}
    for key, given in values.items():
        here = where(key) if callable(where) else where
        if key not in known:
            raise StudyError(f"{here}: {unknown(key, known, values)}")
        value = plain(given, Source(here), (key,))
        if value is None and known[key].default is not None:  # no file could say it again, so a resumed run would be another
            raise StudyError(f"{here}: {key} is None, which a file cannot say (allowed: {words(kinds[key])})")
        try:
            settled[key] = TypeAdapter(kinds[key]).validate_json(json.dumps(value), strict=True)
        except PydanticSchemaGenerationError:
            raise StudyError(f"{here}: {key} is declared as {kinds[key]}, which a file cannot say; declare texts, numbers, booleans and lists") from None
        except ValidationError:
            raise StudyError(f"{here}: {wrong(key, value, kinds[key])}") from None
    for key, field in known.items():
        if key not in settled and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise StudyError(f"{where(key) if callable(where) else where}: there is no {key}; add {key} = … (allowed: {words(kinds[key])})")
    try:
        return config_class(**settled)
    except ValueError as error:
        raise StudyError(f"{where('') if callable(where) else where}: {error}") from None


def fields_shared(config_class: type, values: Mapping[str, object]) -> dict[str, object]:
    """Of `values` those that this Config knows: what a baseline takes from the study's [config]."""
    known = {field.name for field in dataclasses.fields(config_class) if field.init}
    return {key: value for key, value in values.items() if key in known}


def without_none(value: Any) -> Any:  # Any: JSON
    return {key: without_none(item) for key, item in value.items() if item is not None} if isinstance(value, dict) else value


def effective(study: Study, config: object) -> dict[str, Any]:  # Any: TOML values
    """The study with all defaults filled in, `config` the algorithm's own, and without the wire: what the hash covers and `OUT/study.toml` holds."""
    tree = study.model_dump(mode="json")
    del tree["study"]["wire"]
    if study.data:
        del tree["rows"]
    tree["config"] = plain_config(config)
    return dict(without_none(tree))


def plain_config(config: object) -> dict[str, Any]:  # Any: TOML values
    """An algorithm's Config as a file would say it."""
    settled = dataclasses.asdict(config) if dataclasses.is_dataclass(config) and not isinstance(config, type) else vars(config)
    return dict(without_none(plain(settled, Source("Config"), ("config",))))


def study_hash(effective: Mapping[str, object], data_sha256: str | None) -> str:
    """SHA-256 over canonical JSON: sorted keys, no spaces, floats as their shortest text; simulated data is part of it."""
    tree = dict(effective) if data_sha256 is None else {**effective, "data_sha256": data_sha256}
    return hashlib.sha256(json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def describe_study() -> str:
    """A study file to start from, every key explained."""
    return STUDY_TEXT


def describe_party() -> str:
    """A party file to start from, every key explained."""
    return PARTY_TEXT


STUDY_TEXT = """\
# study.toml: the same at every party; its hash is in every letter. Lines that begin with "# key" are optional.

[study]
format = 1                      # of this file
name = "credit-default"         # for reports
algorithm = "fedonce"           # a module name, or a dotted path to your own
task = "classification"         # or "regression"
wire = "processes"              # "inprocess", "processes" or "flare"; no part of the hash
seed = 0                        # of splits, samples and first weights; never of noise

[parties]                       # each brings a party.toml of its own; instead: [data], below
host = "bank"                   # holds the label and drives the run
guests = ["shop", "telco"]      # every other party

[rows]                          # which of the common rows test and train
test = 0.2                      # share that tests, stratified by class
# split_by = "date"             # a column of the host's: the last rows by it test
# folds = 5                     # cross-validation instead of one split

[config]                        # the algorithm's own settings: `reticent audit ALGORITHM` and its page list them
dim = 8                         # numbers that a guest sends for a row

# [compare.splitnn]             # a baseline's own settings; those of [config] that it knows it takes from there
# lr = 1e-3                     # for example

# [privacy]                     # a target, which sets the noise; one that cannot be met is refused
# epsilon = 4.0                 # what may be learnt about one person at most
# delta = 1e-5                  # the chance of more
# against = "public"            # the models are released; "host": the representations too
# fits = 1                      # how many fits on the same people this pays for

# [data]                        # instead of [parties] and [rows]: one table dealt to parties simulated on this machine
# set = "phishing"              # a loader's name (`reticent data list`), or a path to a .parquet or .csv
# label = "Result"              # where the set has several labels, and for a path
# split = "equal"               # or "quadrants", "halves", "views", "columns", "importance", "dirichlet"
# parties = 4                   # how many, the host one of them; not for views, columns, quadrants, halves
# host = 0                      # which of them holds the label; "labels-only": a host besides them, without columns
# names = ["bank", "shop"]      # of the parties; not given: p0, p1, …
# modules = {shop = "shop.nets.Encoder"} # by party: an nn.Module of its own
# seed = 1                      # of the split and the sample; not given: the study's
# columns = [13, 10]            # for "columns": how many each party holds, or lists of names
# views = ["pix", "fou"]        # for "views": one a party
# alpha = 0.3                   # for "importance"
# beta = 0.5                    # for "dirichlet"
# rows = 5000                   # a seeded sample of the training rows
# test = 0.1                    # share that tests; not given: the set's own test part
# split_by = "date"             # a column: the last rows by it test
# folds = 5                     # cross-validation instead of one split

# [columns]                     # with [privacy] and a set given by path: declared bounds and categories, the label's too
# age = {min = 18, max = 100}   # what lies outside is clipped
# education = {values = [1, 2]} # another value becomes the category "other"
"""

PARTY_TEXT = """\
# party.toml: private to one party, never sent. Lines that begin with "# key" are optional.

name = "bank"                   # as the study calls this party
table = "bank.parquet"          # or .csv, .arrow, .feather, from this file's folder
id = "customer_id"              # the column that says who a row is about
label = "default"               # the host's alone: what is to be learnt; a list where there are several
# drop = ["branch"]             # columns that take no part
# module = "bank.nets.Encoder"  # your own nn.Module, as a dotted path

[policy]                        # your rules; what breaks one is refused
# verbs = ["learn", "represent"]  # which questions are answered; not given: all of the algorithm's
max_bytes = "200 MB"            # what may leave in one run: k, M, G, or KiB, MiB, GiB
unnoised = "to-host"            # "never": no tensor leaves without noise
# budget = {epsilon = 10.0, delta = 1e-5, against = "public"} # over all runs, kept in a file beside this one
approve = false                 # true: a person confirms before the first letter leaves
# keep_days = 30                # how long the host may keep what this party sent (noted; the host does not delete by itself yet)

# [columns]                     # needed only under a privacy target: declared bounds and categories, the label's too
# age = {min = 18, max = 100}   # what lies outside is clipped
# education = {values = [1, 2, 3, 4]} # another value becomes the category "other"
"""
