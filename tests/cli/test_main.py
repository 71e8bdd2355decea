"""How a command ends: a sentence and a number, never a trace."""

import subprocess
import sys

import pytest


def reticent(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "reticent", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "Commands"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["run"], 2, "Missing argument"),
        (["run", "--nonsense", "x.toml"], 2, "No such option"),
        (["run", "there-is-none.toml"], 3, "there is no such file"),
        (["audit", "fedtwice"], 3, 'algorithm "fedtwice" is unknown'),
        (["resume", "there-is-none"], 9, "holds no run"),
        (["run", "--help"], 0, "Runs a study"),
    ],
)
def test_a_command_ends_with_a_sentence_and_its_number(words, code, said):
    done = reticent(*words)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
