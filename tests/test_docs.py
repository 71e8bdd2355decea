"""What the pages say is run as it stands."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_example_of_write_an_algorithm_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "write-an-algorithm.md").read_text(), re.DOTALL)
    module = {"__name__": "written"}
    exec(compile(block, "write-an-algorithm.md", "exec"), module)
    auc, up = capsys.readouterr().out.split()
    assert 0.5 < float(auc) <= 1 and int(up) > 2000 * 3 * 4


def test_the_exit_codes_are_those_of_the_errors():
    from reticent import errors

    said = {int(code): names for code, names in re.findall(r"^\| (\d+) \| ([^|]*) \|", (DOCS / "concepts.md").read_text(), re.MULTILINE)}
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.ReticentError) and name not in ("GuestGone", "Late"):
            assert name in said[kind.exit_code], name
