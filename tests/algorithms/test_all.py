"""Claims about every algorithm there is."""

import dataclasses
import inspect
import re

import pytest

from reticent import algorithms
from reticent.federation import Host
from reticent.party import Guest, verbs_of


@pytest.mark.parametrize("name", algorithms.names())
def test_an_algorithm_has_its_five_parts(name):
    found = algorithms.find(name)
    assert found.__doc__ and issubclass(found.Guest, Guest) and issubclass(found.Host, Host)
    assert re.search(r"Rounds?:|0 bytes", found.__doc__), "its docstring says how many rounds it takes"


@pytest.mark.parametrize("name", algorithms.names())
def test_every_field_of_a_config_has_a_default_and_a_comment(name):
    config = algorithms.find(name).Config
    assert dataclasses.is_dataclass(config) and config.__dataclass_params__.frozen
    config()
    for kind in (k for k in config.__mro__ if k is not object):
        for line in inspect.getsource(kind).splitlines():
            if re.match(r"    \w+: ", line):
                assert "  # " in line, f"{kind.__name__}: {line.strip()}"


@pytest.mark.parametrize("name", algorithms.names())
def test_every_message_says_what_it_reveals(name):
    for verb in verbs_of(algorithms.find(name).Guest):
        for message in (verb.question, verb.answer):
            assert re.search(r"reveal|tells", message.reveals(), re.IGNORECASE), message
