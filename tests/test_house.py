"""The house rules that a program can check, on every file of the tree."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reticent import errors

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = sorted((ROOT / "reticent").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

unpickles = re.compile(
    r"\b(?:import|from) (?:pickle|cPickle|dill|cloudpickle|joblib|shelve|marshal)\b"
    r"|\bpickle\.loads?\(|torch\.load\(|joblib\.load|allow_pickle\s*=\s*True|yaml\.load\("  # safetensors.torch.load( too: no reader need look twice
)
environment = re.compile(r"\bos\.(?:environ|getenv|putenv|environb)\b|from os import .*\b(?:environ|getenv)\b|\bload_dotenv\b|\bBaseSettings\b")
unfinished = re.compile(r"mark\.(?:skip|xfail)|pytest\.(?:skip|xfail|importorskip)\(|\b(?:TODO|FIXME)\b|raise NotImplementedError")

# Calls that draw from torch's global generator unless one is handed to them, as functions or as methods of a tensor.
draws = {
    "rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson", "rand_like", "randn_like", "randint_like", "random_split",
    "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_", "trunc_normal_",
    "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_", "DataLoader", "RandomSampler",
}  # fmt: skip

# Modules and functions of torch that ask nobody: layers fill their weights when they are made (skip_init does not), and dropout drops.
unasked = {
    "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Embedding", "LSTM", "GRU", "MultiheadAttention", "TransformerEncoderLayer",
    "Dropout", "Dropout1d", "Dropout2d", "AlphaDropout", "dropout", "dropout1d", "dropout2d", "alpha_dropout", "rrelu", "gumbel_softmax",
}  # fmt: skip
lender = ("reticent/learn/nets.py", "torch.set_rng_state")  # `borrowed`: lends an owned generator to a user's module, and puts the global one back
owners = {"rng", "generator", "stream"}
global_seeds = {"torch.manual_seed", "torch.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.random.manual_seed", "torch.set_rng_state"}


def where(paths: list[Path], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{i}: {line.strip()}" for path in paths for i, line in enumerate(path.read_text().splitlines(), 1) if pattern.search(line)
    ]


def dotted(node: ast.expr) -> str:
    """`torch.nn.init.normal_` as it is written; a call or an index on the way is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def global_randomness(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of whatever draws from, or seeds, a generator that nobody owns."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from ((node.lineno, f"import {name}") for name in names if name == "random" or name.startswith("numpy.random"))
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            last = called.rpartition(".")[2]
            torch_draws = (last in draws and not owned(node)) or (last in unasked and bool({"nn", "functional", "F"} & set(called.split("."))))
            numpy_draws = called.startswith(("np.random.", "numpy.random.")) and last[0].islower() and not (last == "default_rng" and node.args)
            if torch_draws or numpy_draws or called in global_seeds:
                yield node.lineno, called


def owned(node: ast.Call) -> bool:
    """`f(generator=…)`, `f(…, rng)`, or a generator's own method, as `rng.normal(…)`."""
    said = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(keyword.arg == "generator" for keyword in node.keywords) or any(dotted(part).rpartition(".")[2] in owners for part in [*said, *node.args])


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_one_room(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= 450


def test_nothing_unpickles() -> None:
    assert where(PRODUCT, unpickles) == []


def test_the_environment_is_read_in_cli_alone() -> None:
    assert where([path for path in PRODUCT if (ROOT / "reticent" / "cli") not in path.parents], environment) == []


def test_nothing_is_skipped_and_nothing_is_left_to_do() -> None:
    assert where([path for path in PRODUCT + TESTS if path != Path(__file__).resolve()], unfinished) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch.rand(3)", ["torch.rand"]),
        ("torch.rand(3, generator=rng)", []),
        ("x.normal_(0, 1)", ["x.normal_"]),
        ("f(x).normal_(0, 1)", [".normal_"]),
        ("torch.nn.init.xavier_uniform_(w)", ["torch.nn.init.xavier_uniform_"]),
        ("torch.nn.Dropout(0.5)", ["torch.nn.Dropout"]),
        ("Dropout(0.5, rng)", []),
        ("nn.Linear(2, 3)", ["nn.Linear"]),
        ("skip_init(nn.Linear, 2, 3)", []),
        ("torch.manual_seed(0)", ["torch.manual_seed"]),
        ("torch.Generator().manual_seed(0)", []),
        ("np.random.seed(0)", ["np.random.seed"]),
        ("np.random.default_rng()", ["np.random.default_rng"]),
        ("np.random.default_rng(7)", []),
        ("rng.normal(0, 1)", []),
        ("import random", ["import random"]),
        ("from random import choice", ["import random"]),
    ],
)
def test_a_draw_that_nobody_owns_is_found(line: str, found: list[str]) -> None:
    assert [name for _, name in global_randomness(line)] == found


def test_randomness_has_an_owner() -> None:
    found = [(str(path.relative_to(ROOT)), name, line) for path in PRODUCT for line, name in global_randomness(path.read_text())]
    assert [place for place in found if place[:2] != lender] == []


def test_every_error_has_its_exit_code_in_the_tree() -> None:
    drawn = {name: int(code) for name, code in re.findall(r"(\w+) +(\d+)  ", errors.__doc__ or "")}
    public = {name: kind.exit_code for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.ReticentError)}
    assert drawn == public
    assert not {0, 2} & set(public.values()), "0 is success, and 2 is typer's for a wrong command line"


def test_data_that_is_not_there_is_said_on_the_last_line(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = data: real tables\n")
    (tmp_path / "test_toy.py").write_text(
        "import pytest\n\ndef test_without(): pass\n\n"
        "@pytest.mark.data\ndef test_with(data): assert data.is_dir()\n\n@pytest.mark.data\ndef test_too(data): assert data.is_dir()\n"
    )
    elsewhere = run_pytest(tmp_path, "")
    assert elsewhere[-1] == "2 tests that need RETICENT_DATA were left out"
    assert "1 passed, 2 deselected" in elsewhere[-2]
    assert "3 passed" in run_pytest(tmp_path, str(tmp_path))[-1]


def run_pytest(folder: Path, data: str) -> list[str]:
    """The lines that a suite prints where RETICENT_DATA is `data`."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(folder)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "RETICENT_DATA": data},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()
