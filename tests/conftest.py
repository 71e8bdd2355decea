"""What every test stands on: one thread, a `data` mark that counts what it leaves out, examples that CI draws the same each time."""

import os
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)  # bits are promised for one thread, and two cores are shared by four parties
hypothesis.settings.register_profile("reticent", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("reticent")

left_out = pytest.StashKey[int]()


def data_folder() -> Path | None:
    """The folder of real tables, where there is one: RETICENT_DATA."""
    named = os.environ.get("RETICENT_DATA", "")
    return Path(named).resolve() if named and Path(named).is_dir() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the folder, tests marked `data` are left out: a skip would pass for a result."""
    needing = [] if data_folder() else [item for item in items if item.get_closest_marker("data")]
    config.stash[left_out] = len(needing)
    if needing:
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in set(needing)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    yield  # first everyone else, pytest's closing line too
    said = session.config.pluginmanager.get_plugin("terminalreporter")
    count = session.config.stash.get(left_out, 0)
    if said is not None and count:
        said.write_line(f"{count} {'test that needs' if count == 1 else 'tests that need'} RETICENT_DATA {'was' if count == 1 else 'were'} left out")


@pytest.fixture
def data() -> Path:
    """The folder of real tables, for tests marked `data`."""
    folder = data_folder()
    assert folder is not None, "this test reads real tables: mark it with pytest.mark.data"
    return folder
