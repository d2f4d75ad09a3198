# Checks that every public method of the SDK's clients is accounted for, and that those listed as tested were called.

import inspect
import re
from pathlib import Path

import pytest
from kit import CALLED, WARNED
from methods import LATER, NEVER_REFUSED, TESTED
from openintent import AsyncOpenIntentClient, OpenIntentClient

CLIENTS = [OpenIntentClient, AsyncOpenIntentClient]


def public(client: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(client, callable) if not name.startswith("_")}


def test_every_method_is_accounted_for_once():
    listed = [name for group in (TESTED, LATER) for names in group.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) == set().union(*map(public, CLIENTS))
    assert set(NEVER_REFUSED) <= {name for names in TESTED.values() for name in names}


def test_conformance_says_what_is_tested():
    text = (Path(__file__).parents[2] / "CONFORMANCE.md").read_text()
    section = text.split("## The Python SDK, method by method")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")]
    said = {test.strip("`"): re.findall(r"`(\w+)`", methods) for methods, status, test in rows if status == "works"}
    assert said == TESTED
    later = [name for methods, status, _ in rows if status.startswith("later") for name in re.findall(r"`(\w+)`", methods)]
    assert sorted(later) == sorted(name for names in LATER.values() for name in names)


@pytest.mark.parametrize("file", TESTED)
def test_the_file_that_is_named_calls_it(file):
    text = Path(__file__).with_name(file).read_text()
    assert [name for name in TESTED[file] if f".{name}(" not in text] == []


@pytest.mark.at_the_end
def test_every_tested_method_was_answered_and_refused(request):
    config = request.config
    if config.option.keyword or [Path(asked).resolve() for asked in config.args] != [Path(__file__).parent]:
        pytest.skip("only a part of the tests was asked for")
    tested = {name for names in TESTED.values() for name in names}
    expected = {(client, name, "answered") for client in CLIENTS for name in tested & public(client)}
    refusable = tested - NEVER_REFUSED.keys()
    expected |= {(client, name, "refused") for client in CLIENTS for name in refusable & public(client)}
    assert expected - CALLED == set()


@pytest.mark.at_the_end
def test_whatever_the_sdk_sends_is_known():
    if not CALLED:
        pytest.skip("nothing was sent")
    assert WARNED == []
