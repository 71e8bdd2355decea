"""`make demo`, `python -m reticent.cli.demo`: a bank and three guests learn who will not pay, in four processes on this machine.

Its files are those of examples/credit/, with tables made from the set that ships with the package: the same can be had by hand
with `reticent run`, and that command is what it prints.
"""

import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reticent import report, run, state, study, sweeps
from reticent.cli.app import AsJson, app, count, grid, say, screen
from reticent.data import sets
from reticent.data.sets import default_credit

HOST, GUESTS = "bank", ("repayments", "bills", "payments")
COMPARE = ("solo", "splitnn", "combined")
views = {"bank": "person", "repayments": "status", "bills": "bills", "payments": "payments"}
what_they_hold = {
    "bank": "limit, sex, education, marriage, age, and who did not pay",
    "repayments": "six months of repayment status",
    "bills": "six monthly bills",
    "payments": "six monthly payments",
}

STUDY = """\
# The same at all four parties; its hash is in every letter.
[study]
name = "Who will not pay next month?"
algorithm = "fedonce"           # each guest speaks once to learn, and once to predict
task = "classification"
wire = "processes"              # one process a party, over mutual TLS on loopback

[parties]
host = "bank"
guests = ["repayments", "bills", "payments"]

[rows]
test = 0.2

[config]
dim = 3                         # a guest has six columns and sends three numbers a person

[compare.splitnn]               # ten epochs; the best of seven settings of epochs, rate and batch that we tried, judged on the test rows, in its favour
epochs = 10
lr = 3e-3
"""


def party_file(name: str) -> str:
    """What this party would write for itself."""
    label = 'label = "default"               # 1: did not pay\n' if name == HOST else ""
    policy = (
        ""
        if name == HOST
        else '\n[policy]\nverbs = ["learn", "represent", "start", "step"]  # start and step are splitnn\'s, for the comparison\nmax_bytes = "50 MB"\n'
    )
    return f'# {what_they_hold[name][0].upper()}{what_they_hold[name][1:]}: known to this party alone, never sent.\nname = "{name}"\ntable = "{name}.parquet"\nid = "customer"\n{label}{policy}'


def prepare(folder: Path) -> list[Path]:
    """Writes the study, the four party files and their tables; gives the party files back, the host's first."""
    run.folder_of(folder)
    found = sets.load("default_credit")
    assert found.table.columns is not None  # a table, not pictures
    customers = pl.Series("customer", range(1, len(found.labels) + 1))
    files = []
    state.write(folder / "study.toml", STUDY.encode())
    for name, view in views.items():
        table = found.table.columns.select(default_credit.views[view]).insert_column(0, customers)
        if name == HOST:
            table = table.with_columns(pl.Series("default", found.labels.y.int().numpy()))
        table.write_parquet(folder / f"{name}.parquet")
        files.append(folder / f"{name}.toml")
        state.write(files[-1], party_file(name).encode())
    return files


class View:
    """What a terminal shows while it runs: a line a party, read from progress and from the ledger as it grows."""

    def __init__(self, folder: Path, methods: tuple[str, ...]) -> None:
        self.folders = {method: folder if number == 0 else folder / "compare" / method for number, method in enumerate(methods)}
        self.told: dict[str, tuple[int, int, str]] = {}
        self.method = methods[0]
        self.began = time.monotonic()
        self.read = 0
        self.rest = b""
        self.moved: dict[tuple[str, str], int] = {}
        self.doing: dict[str, str] = {}
        self.letters = 0

    def __call__(self, who: str, done: int, of: int, what: str) -> None:
        self.told[who] = (done, of, what)

    def look(self) -> None:
        """Reads what the ledger of the method that runs has gained."""
        method = next((name for name in reversed(self.folders) if (self.folders[name] / "ledger.jsonl").exists()), self.method)
        if method != self.method:
            self.method, self.read, self.rest = method, 0, b""
            self.told, self.moved, self.doing, self.letters = {}, {}, {}, 0
        path = self.folders[method] / "ledger.jsonl"
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self.read)
            lines = (self.rest + (new := file.read())).split(b"\n")
        self.read, self.rest = self.read + len(new), lines.pop()
        for line in map(json.loads, lines):
            guest = line["from"] if line["way"] == "up" else line["to"]
            self.moved[guest, line["way"]] = self.moved.get((guest, line["way"]), 0) + line["bytes"]
            self.doing[guest] = f"answered {line['verb']}" if line["way"] == "up" else f"asked to {line['verb']}"
            self.letters += 1

    def __rich__(self) -> Group:
        self.look()
        alone = self.method in sweeps.ALONE
        shown = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
        for name, justify, width in (("party", "left", 11), ("", "left", 22), ("now", "left", 32), ("said", "right", 9), ("heard", "right", 9)):
            shown.add_column(name, justify="right" if justify == "right" else "left", width=width, no_wrap=True)
        for party in (HOST, *GUESTS):
            done, of, what = self.told.get(party, (0, 1, ""))
            hosting = party == HOST
            said = sum(size for (_, way), size in self.moved.items() if way == "down") if hosting else self.moved.get((party, "up"), 0)
            heard = sum(size for (_, way), size in self.moved.items() if way == "up") if hosting else self.moved.get((party, "down"), 0)
            if not hosting and not what:
                what = "is not asked" if alone else self.doing.get(party, "starts its process, dials in")
                done, of = (1, 1) if what.startswith("answered") else (0, 1)
            shown.add_row(
                party,
                ProgressBar(total=max(of, 1), completed=done, width=20),
                what or ("waits for its guests" if not alone else "learns"),
                count(said),
                count(heard),
            )
        head = Text.assemble((self.method, "bold"), f"   {self.letters:,} letters   {time.monotonic() - self.began:.0f} s")
        return Group(Text(), head, shown)


def new_folder(root: Path) -> Path:
    """`runs/demo-TIME`, one that is not there yet."""
    base = root / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (base.name if number == 1 else f"{base.name}-{number}" for number in itertools.count(1))
    return next(root / name for name in names if not (root / name).exists())


def table(result: Mapping[str, Any]) -> Table:  # Any: JSON
    """The four methods beside each other."""
    made = grid("", "AUC", "accuracy", "rounds", "up", "down", "seconds")
    methods = {result["algorithm"]: result, **result["compare"]}
    for name in ("solo", result["algorithm"], "splitnn", "combined"):
        one = methods[name]
        size = one["bytes"]["fit"]
        cells = [
            f"{one['metrics']['auc']:.3f}",
            f"{one['metrics']['accuracy']:.3f}",
            f"{one['rounds']['fit']:,}",
            count(size["up"]),
            count(size["down"]),
            f"{one['seconds']['fit']:.1f}",
        ]
        label = f"{name} (simulated)" if one.get("simulated") else name
        made.add_row(label, *cells, style="bold" if name == result["algorithm"] else "")
    return made


@app.command(hidden=True)
def demo(
    root: Annotated[Path, typer.Option("--root", help="Where the demo's folder is made.")] = Path("runs"),
    files: Annotated[Path | None, typer.Option("--files", help="Write its files and tables here, and stop.")] = None,
    as_json: AsJson = False,
) -> None:
    """A bank and three guests learn who will not pay: four processes, a table, a report."""
    if files is not None:
        prepare(files)
        say({"files": str(files)}, as_json, f"written to {files}: {HOST}, {', '.join(GUESTS)} and study.toml")
        return
    console = Console(stderr=True) if as_json else Console()
    began = time.monotonic()
    home = new_folder(root)
    parties = prepare(home)
    here = os.path.relpath(home)
    say_line = functools.partial(console.print, soft_wrap=True, highlight=False, markup=False)
    say_line(f"A bank knows {what_they_hold[HOST]}, of 30,000 customers.")
    say_line("Three partners know other things of the same customers:")
    for name in GUESTS:
        say_line(f"  {name:<11} {what_they_hold[name]}")
    say_line("They learn one model, in four processes over mutual TLS; no column leaves its party. By hand, this is")
    say_line(f"  cd {here} && reticent run study.toml {' '.join(f'--parties {file.name}' for file in parties)} --compare {','.join(COMPARE)}", style="dim")
    wanted = study.read_study(home / "study.toml")
    options = run.Options(wire=wanted.study.wire, compare=COMPARE, parties=tuple(str(file.absolute()) for file in parties))
    view = View(home / "run", (wanted.study.algorithm, *COMPARE))
    with Live(view, console=screen, refresh_per_second=4, transient=True) if screen.is_terminal else nullcontext():
        result = sweeps.conduct(wanted, options, (home / "run").absolute(), view)
    page = report.write((home / "run").absolute(), home / "report.html")
    metrics, rows = result["metrics"], result["rows"]["test"]
    gain = metrics["auc"] - result["compare"]["solo"]["metrics"]["auc"]
    say_line("")
    console.print(table(result))
    say_line("\nsolo: the bank alone. combined: all columns in one place, which nobody may do. up: to the bank; down: from it.")
    say_line(f'Always saying "will pay" has an accuracy of {metrics["majority"]:.3f} on the {rows:,} customers of the test.\n')
    say_line(f"What happened: one letter from each partner, and the bank's AUC rose by {gain:.3f}; {time.monotonic() - began:.0f} s for everything.")
    say_line(f"The report:    {os.path.relpath(page)}, one file for any browser")
    say_line("Try next:      reticent audit fedonce, which says what a partner can be asked; then examples/credit/README.md")
    if as_json:
        say({**result, "report": str(page)}, True)


if __name__ == "__main__":
    sys.argv[1:1] = ["demo"]
    from reticent.cli import main

    main()
