"""Every exit of an algorithm, read from its Guest class without running it; and the same as a page's table."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from reticent import algorithms
from reticent.errors import ReticentError
from reticent.message import Field, Message, fields_of
from reticent.party import Verb, verbs_of

marked = re.compile(r"<!-- audit (\S+) -->\n.*?<!-- end -->", re.DOTALL)
begun = re.compile(r"<!-- audit \S+ -->")


def exits(algorithm: str | Any) -> list[dict[str, Any]]:  # Any: an algorithm handed over; JSON
    """What the host may ask and what a guest answers, verb by verb. An algorithm whose host asks nobody has no exit."""
    found = algorithms.find(algorithm) if isinstance(algorithm, str) else algorithm
    return [] if getattr(found.Host, "alone", False) else [exit_of(verb) for verb in verbs_of(found.Guest)]


def exit_of(verb: Verb) -> dict[str, Any]:  # Any: JSON
    return {
        "verb": verb.name,
        "question": verb.question.__name__,
        "question_reveals": verb.question.reveals(),
        "question_unnoised": verb.question.unnoised(),
        "answer": verb.answer.__name__,
        "reveals": verb.reveals,
        "unnoised": verb.answer.unnoised(),
        "speaks": verb.answer.speaks(),
        "fields": {"question": fields(verb.question), "answer": fields(verb.answer)},
    }


def fields(message: type[Message]) -> dict[str, str]:
    return {field.name: held(field) for field in fields_of(message)}


def held(field: Field) -> str:
    """What a field may hold, in words."""
    types = " or ".join(str(dtype).removeprefix("torch.") for dtype in field.array.dtypes)
    numbers = "numbers of any type" if len(field.array.dtypes) > 4 else f"{types} numbers"
    shape = "" if field.array.rank is None else f" of {field.array.rank} dimension{'s' * (field.array.rank != 1)}"
    if field.array.rows:
        said = "row numbers or a row mask"
    elif field.kind == "tensor":
        said = f"{numbers}{shape}"
    elif field.kind == "tensors":
        said = f"several, by name: {numbers}{shape}"
    elif field.kind == "noised":
        said = "numbers that a mechanism has noised"
    else:
        said = {"str": "text", "int": "whole number", "float": "number", "bool": "truth value"}[field.kind] + "s" * field.many
    return f"{said}, or nothing" if field.optional else said


def citation(algorithm: str | Any) -> str:  # Any: an algorithm handed over
    """The first line of the algorithm's docstring."""
    found = algorithms.find(algorithm) if isinstance(algorithm, str) else algorithm
    return next(iter((inspect.getdoc(found) or "").splitlines()), "")


def markdown(algorithm: str) -> str:
    """The audit as a table for a page."""
    lines = [citation(algorithm), ""]
    found = exits(algorithm)
    if not found:
        return "\n".join([*lines, "The host asks nobody: no guest has a verb, and nothing leaves anyone."])
    lines += ["| verb | the host's question | what it tells the guest | the guest's answer | what it tells the host | noise |", "|---|---|---|---|---|---|"]
    for entry in found:
        question, answer = (
            f"`{entry[side]}`: {'; '.join(f'{name}: {said}' for name, said in entry['fields'][side].items())}" for side in ("question", "answer")
        )
        cells = [f"`{entry['verb']}`", question, entry["question_reveals"], answer, entry["reveals"], noise(entry)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def noise(entry: dict[str, Any]) -> str:  # Any: JSON
    return "none" if entry["unnoised"] else "noised" if entry["speaks"] else "carries no numbers of anybody's"


def refreshed(text: str) -> str:
    """`text` with every section `<!-- audit NAME -->` … `<!-- end -->` written anew."""
    whole = len(marked.findall(text))
    if whole != len(begun.findall(text)):
        raise ReticentError(f"{len(begun.findall(text))} audit sections begin and {whole} of them end: close each <!-- audit NAME --> with <!-- end -->")
    return marked.sub(lambda found: f"<!-- audit {found[1]} -->\n{markdown(found[1])}\n<!-- end -->", text)


def refresh(path: Path) -> bool:
    """Rewrites the audits on a page; True if any was out of date."""
    before = path.read_text(encoding="utf-8")
    after = refreshed(before)
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


if __name__ == "__main__":  # a page's author: python -m reticent.audit docs/threat-model.md
    for name in sys.argv[1:]:
        print(f"{name}: {'written anew' if refresh(Path(name)) else 'as it was'}")
