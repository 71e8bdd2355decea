"""What all commands share: the application, how a result is printed, how progress is shown, and how an error ends a command."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from reticent.party import Progress as Told

app = typer.Typer(
    name="reticent", help="Learn together while saying little.", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback()
def reticent() -> None:
    """Learn together while saying little."""


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.")]
Data = Annotated[list[Path] | None, typer.Option("--data", help="A folder with data sets; else RETICENT_DATA and the user's cache.")]
Device = Annotated[str, typer.Option(help="cpu, or cuda where there is one.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads for arithmetic; 1 gives the same bits everywhere.")]

screen = Console(stderr=True)


def homes(data: Sequence[Path] | None) -> tuple[str, ...]:
    """Folders to look for data sets in: those given, or the environment's. The only place the environment is read."""
    from reticent.data import sets

    return tuple(str(path) for path in data) if data else tuple(str(path.absolute()) for path in sets.home(os.environ))


def say(result: Mapping[str, Any], as_json: bool, shown: Table | str | None = None) -> None:  # Any: JSON
    """The JSON object, or what a person reads."""
    if as_json:
        json.dump(result, sys.stdout, default=str)
        sys.stdout.write("\n")
    elif shown is not None:
        Console(width=None if sys.stdout.isatty() else 140).print(shown)


def grid(*columns: str, title: str | None = None, texts: Sequence[str] = ()) -> Table:
    """A table for people; the columns in `texts` hold sentences, which wrap."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 or column in texts else "right", no_wrap=column not in texts, overflow="fold")
    return made


def count(size: float) -> str:
    """Bytes as people say them."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


@contextmanager
def bars(quiet: bool = False) -> Iterator[Told | None]:
    """Live bars on standard error, one a party; nothing where it is no terminal."""
    if quiet or not screen.is_terminal:
        yield None
        return
    with Progress(
        TextColumn("{task.fields[party]:>10}"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen, transient=True
    ) as shown:
        tasks: dict[str, TaskID] = {}

        def told(who: str, done: int, of: int, what: str) -> None:
            if who not in tasks:
                tasks[who] = shown.add_task(what, total=of, party=who)
            shown.update(tasks[who], completed=done, total=of, description=what)

        yield told
