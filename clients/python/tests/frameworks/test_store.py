# What frameworks keep between two runs, in an agent's memory: values of any size, which are there whole or not at all.

import itertools
import os
import threading
import uuid

import entente
import pytest
from entente import Entente, LeaseError
from entente.integrations.store import PART, Store

LONG = [os.urandom(PART * 2) for _ in range(2)]


@pytest.fixture
def store():
    with Entente() as client:
        yield Store(f"test {uuid.uuid4().hex}", client)


class Killed(Exception):
    pass


def killed_after(monkeypatch, store, writes):
    """Lets the program die after some writes of the store."""
    own, left = store.client.call, itertools.count(writes, -1)

    def call(request):
        if request.method != "GET" and next(left) <= 0:
            raise Killed
        return own(request)

    monkeypatch.setattr(store.client, "call", call)


def keys(store):
    listed = store.client.call(entente.operations.list_memory(store.client.acting(), namespace=store.namespace, limit=100))
    return sorted(one.key for one in listed)


@pytest.mark.parametrize("writes", range(4))
def test_a_value_is_replaced_whole_or_not_at_all(store, monkeypatch, writes):
    store.put("a", LONG[0])
    with monkeypatch.context() as patched, pytest.raises(Killed):
        killed_after(patched, store, writes)
        store.put("a", LONG[1])
        raise AssertionError("it was not killed")
    assert store.get("a") in LONG
    store.put("a", LONG[1])
    assert store.get("a") == LONG[1]


def test_a_value_that_is_replaced_while_it_is_read_is_read_anew(store, monkeypatch):
    store.put("a", LONG[0])
    own, replaced = store.find, []

    def find(key):
        found = own(key)
        if not replaced:
            replaced.append(True)
            store.put("a", LONG[1])
        return found

    monkeypatch.setattr(store, "find", find)
    assert store.get("a") == LONG[1]


def test_a_value_without_a_part_is_said_to_be(store):
    store.put("a", LONG[0])
    store.delete("a#")
    with pytest.raises(KeyError, match="no longer complete"):
        store.get("a")


def test_the_parts_of_a_value_leave_with_it(store):
    for value in (LONG[0], LONG[1], LONG[1], b"short"):
        store.put("a", value)
        assert store.get("a") == value
    assert keys(store) == ["a"]


@pytest.mark.parametrize("writes", range(3))
def test_a_killed_attempt_is_made_again(store, monkeypatch, writes):
    with monkeypatch.context() as patched, pytest.raises(Killed):
        killed_after(patched, store, writes)
        store.put("a", LONG[0], replace=False)
    assert store.put("a", LONG[0], replace=False)
    assert store.get("a") == LONG[0]
    assert not store.put("a", LONG[1], replace=False)
    assert store.get("a") == LONG[0]


@pytest.mark.parametrize("replace", [True, False])
def test_a_writer_whose_lease_has_ended_hears_it(store, replace):
    store.put("a", b"before")
    intent = store.client.create_intent("Research")
    with store.client.lease(intent.id, "/a") as held:
        fenced = Store(store.namespace, held.client)
    found = []

    def write():
        with pytest.raises(LeaseError) as refused:
            fenced.put("a", b"after", replace=replace)
        found.append(refused.value.code)

    # Not on this thread: it may not end.
    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    writing.join(20)
    assert found == ["lease_ended"] and store.get("a") == b"before"
