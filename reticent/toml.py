"""TOML with places: where a key stands, what a command line put over it, one sentence about what is wrong there, and a writer.

Beside TOML it knows pydantic's models and what is wrong with one; which models there are, `study` says.
"""

import datetime
import difflib
import json
import math
import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from reticent.errors import ReticentError, StudyError

Keys = tuple[str, ...]
M = TypeVar("M", bound=BaseModel)

bare_key = re.compile(r"[A-Za-z0-9_-]+")
place_of_mistake = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
type_words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "nothing"}
limit_words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "min_length": "of length at least", "max_length": "of length at most"}
torn = re.compile(r"[\ud800-\udfff]")  # what Python makes of bytes that are no UTF-8
credentials = re.compile(r"://[^@/\s\"]*@")


def inline(value: object) -> str:
    """`value` as it stands on the right of an equals sign."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # shortest text that reads back as the same number; inf and nan are TOML's words too
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON lets DEL stand, TOML does not
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_text(key)} = {inline(item)}" for key, item in value.items() if item is not None) + "}"
    raise StudyError(f"{value!r} is of type {type(value).__name__}, which TOML cannot say: use texts, numbers, true, false, lists and tables")


def key_text(key: str) -> str:
    return key if bare_key.fullmatch(key) else inline(key)


def write_toml(tree: Mapping[str, object]) -> str:
    """TOML that `tomllib.loads` reads back as `tree`; what is None is left out."""
    return "\n".join(sections(tree, ()))


def sections(tree: Mapping[str, object], path: Keys) -> Iterator[str]:
    for key, value in tree.items():
        if value is not None and not isinstance(value, Mapping):
            yield f"{key_text(key)} = {inline(value)}"
    for key, value in tree.items():  # after the plain keys, which would else belong to the table before them
        if isinstance(value, Mapping):
            yield f"[{'.'.join(key_text(part) for part in (*path, key))}]"
            yield from sections(value, (*path, key))
    if not path:
        yield ""


def show(value: object) -> str:
    """A value found, short enough for a sentence."""
    if value is None:
        return "None"
    text = value.isoformat() if isinstance(value, datetime.date | datetime.time) else inline(value)
    return clip(text)


def clip(text: str) -> str:
    """A text on one line, short, and without a database's password."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in credentials.sub("://…@", text))
    return text if len(text) <= 80 else f"{text[:77]}…"


def plain(value: Any, source: "Source", path: Keys, problem: type[ReticentError] = StudyError) -> Any:  # Any: whatever a caller or a TOML file holds
    """`value` as JSON can hold it: dicts, lists, texts, numbers, booleans, None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, source, (*path, str(key)), problem) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, source, path, problem) for item in value]
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, float) and not math.isnan(value))
        or (isinstance(value, str) and not torn.search(value))
    ):
        return value
    here = f"{source.at(path)}: {clip(path[-1]) if path else 'the whole'}"
    if isinstance(value, str):
        raise problem(f"{here} = {show(value)} holds half a letter, which no UTF-8 file can hold; write whole ones")
    if isinstance(value, float):
        raise problem(f"{here} = nan is not a number; write one, or leave the key out")
    if isinstance(value, datetime.date | datetime.time):
        raise problem(f'{here} = {show(value)} is a date without quotes; write "{show(value)}"')
    raise problem(f"{here} is of type {type(value).__name__}, which a TOML file cannot hold; use texts, numbers, true, false, lists and tables")


def paths(tree: Mapping[str, object]) -> Iterator[Keys]:
    for key, value in tree.items():
        yield (key,)
        if isinstance(value, Mapping):
            yield from ((key, *rest) for rest in paths(value))


def key_lines(text: str) -> dict[Keys, int]:
    """The line, counted from 1, on which each key and each table of a valid TOML text first stands.

    A statement ends on the first line up to which it parses alone: TOML's own reader knows strings, arrays and comments best.
    """
    lines, found, start = text.split("\n"), dict[Keys, int](), 0
    table: Keys = ()
    while start < len(lines):
        end, tree = start, None
        while tree is None and end < len(lines):
            end += 1
            try:
                tree = tomllib.loads("\n".join(lines[start:end]))
            except tomllib.TOMLDecodeError:
                continue
        named = list(paths(tree or {}))
        if lines[start].lstrip().startswith("["):
            table, named = named[-1], [()]  # [a.b] is read as a, then b in it
        for path in named:
            found.setdefault((*table, *path), start + 1)
        start = end
    return found


@dataclass(frozen=True)
class Source:
    """Where values came from. Two sources are equal, so that records that carry one compare by their values."""

    name: str = field(compare=False)  # the file as it was named, or what stands for it
    text: str = field(default="", compare=False)  # the file's text; empty: the values came from Python
    path: Path | None = field(default=None, compare=False)  # the file
    overrides: Sequence[tuple[Keys, str]] = field(default=(), compare=False)  # keys set on the command line, and the words that did it

    def at(self, path: Keys) -> str:
        """The beginning of a sentence about the key at `path`: file and line, or the option that set it."""
        for keys, said in reversed(self.overrides):
            if path[: len(keys)] == keys:
                return said
        lines = key_lines(self.text)
        for length in range(len(path), 0, -1):
            if path[:length] in lines:
                return f"{self.name}, line {lines[path[:length]]}"
        return f"{self.name} [{'.'.join(path[:-1])}]" if len(path) > 1 else self.name


def read(path: Path, problem: type[ReticentError]) -> tuple[str, dict[str, Any]]:  # Any: TOML values
    """A TOML file's text and tree; `problem` with one sentence if there is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # an editor's byte order mark is no mistake of the user's
    except FileNotFoundError:
        raise problem(f"{path}: there is no such file; `reticent init` writes one to start from") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise problem(f"{path}, line {line}: byte {error.object[error.start]:#x} is not UTF-8; save the file as UTF-8 text") from None
    except OSError as error:
        raise problem(f"{path}: it cannot be read ({(error.strerror or str(error)).lower()}); name a TOML file that you may read") from None
    try:
        return text, tomllib.loads(text)
    except RecursionError:
        raise problem(f"{path}: lists or tables are nested too deeply to be read; two levels are all that is needed") from None
    except tomllib.TOMLDecodeError as error:
        where = place_of_mistake.search(str(error))
        what = place_of_mistake.sub("", str(error))
        lines = text.split("\n")
        number = int(where[1]) if where and where[1] else max(1, len(text.rstrip().split("\n")))
        column = f" at column {where[2]}" if where and where[2] else " where the file ends"
        said = f"{clip(what[:1].lower() + what[1:])}{column} of `{clip(lines[number - 1].strip())}`"
        raise problem(f"{path}, line {number}: this is not TOML: {said} (allowed: key = value, texts in quotes)") from None


def override(tree: dict[str, Any], text: str) -> Keys:  # Any: TOML values
    """Puts `config.dim=16` into `tree` and returns its keys; the value is TOML, or else a text."""
    said = f"--set {clip(text)}"
    name, equals, value = text.partition("=")
    try:
        found = list(paths(tomllib.loads(f"{name.strip()} = 0"))) if equals and "\n" not in name and not torn.search(name) else []
    except tomllib.TOMLDecodeError:
        found = []
    if not found:
        raise StudyError(f"{said}: this is no setting (allowed: section.key=value, as in config.dim=16)")
    keys = found[-1]
    for depth, key in enumerate(keys[:-1], 1):
        tree = tree.setdefault(key, {})
        if not isinstance(tree, dict):
            raise StudyError(f"{said}: {clip('.'.join(keys[:depth]))} is {show(tree)}, not a table, so it has no {clip(keys[depth])}")
    tree[keys[-1]] = value_of(value.strip())
    return keys


def value_of(text: str) -> object:
    try:
        tree = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    value = tree.get("value")
    return text if len(tree) > 1 or isinstance(value, datetime.date | datetime.time) else value


def words(kind: Any, limits: Sequence[Any] = ()) -> str:  # Any: a type as annotated, and pydantic's limits
    """What a field of this type allows, in words."""
    told = [limit.description for limit in limits if isinstance(getattr(limit, "description", None), str)]
    if told:
        return str(told[0])
    limits = [inner for limit in limits for inner in getattr(limit, "metadata", [limit])]
    said = [f"{word} {getattr(limit, name)}" for limit in limits for name, word in limit_words.items() if getattr(limit, name, None) is not None]
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base = words(inside[0], inside[1:])
    elif origin is Literal:
        base = " or ".join(show(choice) for choice in inside)
    elif origin in (Union, types.UnionType):
        base = " or ".join(dict.fromkeys(words(part) for part in inside if part is not type(None)))
    elif origin in (list, tuple, Sequence) and inside:
        base = f"a list (each: {words(inside[0])})"
    elif kind in type_words:
        base = type_words[kind]
    else:
        needed = ", ".join(key for key, field in fields_of(kind).items() if field.is_required())
        base = "anything" if kind is Any else "a list" if kind in (list, tuple) else f"a table with {needed}" if needed else "a table"
    return ", ".join([base, *said]).replace("of length at least 1", "not empty")


def choices(kind: Any) -> list[str]:  # Any: a type as annotated
    return [str(arg) for arg in get_args(kind)] if get_origin(kind) is Literal else [word for part in get_args(kind) for word in choices(part)]


def guess(found: object, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(found, sorted(known), n=1) if isinstance(found, str) else []
    return f", did you mean '{near[0]}'?" if near else ""


def unknown(key: str, known: Iterable[str], there: Iterable[str], what: str = "key") -> str:
    return f'unknown {what} "{clip(key)}"{guess(key, set(known) - set(there))} (allowed: {", ".join(sorted(known)) or "none"})'


def wrong(key: str, found: object, kind: Any, limits: Sequence[object] = ()) -> str:  # Any: a type as annotated
    return f"{clip(key)} = {show(found)}{guess(found, choices(kind))} (allowed: {words(kind, limits)})"


def mark(key: str, kind: Any) -> str:  # Any: a type as annotated
    return f"[{key}]" if isinstance(kind, type) and issubclass(kind, BaseModel) else key


def fields_of(kind: Any) -> Mapping[str, FieldInfo]:  # Any: types as annotated
    return getattr(kind, "model_fields", {})


def inner_model(kind: Any) -> Any:  # Any: types as annotated
    """The model, or the dict's values, behind `Optional`."""
    parts = [part for part in get_args(kind) if part is not type(None)] if get_origin(kind) in (Union, types.UnionType) else [kind]
    return parts[0]


def checked(model: type[M], tree: Mapping[str, object], source: Source, problem: type[ReticentError]) -> M:
    """`tree` as a `model`, or one sentence about the first thing that is wrong, unknown keys before all else: they explain what is missing."""
    values = plain(tree, source, (), problem)
    try:
        return model.model_validate_json(json.dumps(values))
    except ValidationError as error:
        first = min(error.errors(include_url=False), key=lambda entry: entry["type"] != "extra_forbidden")
    path, found, beside = list[str](), values, values
    container: Any = model  # Any: a model's class or a dict's type
    kind: Any = model
    for key in first["loc"][:-1] if first["type"] == "missing" else first["loc"]:
        if not isinstance(found, dict) or key not in found:
            break  # from here on pydantic names a branch of a union, not a key
        container, beside, found = kind, found, found[key]
        path.append(str(key))
        field = fields_of(container).get(str(key))
        kind = inner_model(field.annotation) if field else (get_args(container) or (None, Any))[1]
    here, name = source.at(tuple(path)), path[-1] if path else ""
    if first["type"] == "extra_forbidden":
        there = () if tuple(path) in dict(source.overrides) else beside  # an option means to say again what the file says
        raise problem(f"{here}: {unknown(name, fields_of(container), there, 'section' if isinstance(found, dict) and len(path) == 1 else 'key')}")
    if first["type"] == "missing":
        key = str(first["loc"][-1])
        absent = fields_of(kind)[key]
        needed = f"[{'.'.join(path)}] has no {key}; add {key} = …" if path else f"there is no {mark(key, absent.annotation)}; add it"
        raise problem(f"{here}: {needed} (allowed: {words(absent.annotation, [absent])})")
    field = fields_of(container).get(name)
    raise problem(f"{here}: {wrong(name, found, field.annotation if field else kind, [field] if field else ())}")
