# Agents' memory through the SDK (RFC-0015): storing, reading, listing, searching, changing under a version, deleting.

import uuid
from datetime import timedelta

from kit import INTENT, TASK, recent, refused
from openintent import ConflictError, NotFoundError, OpenIntentError
from openintent.models import MemoryPriority, MemorySensitivity, MemoryType

MEMORY = "mem_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
ADA = "agent.ada"


def fresh() -> str:
    """A namespace for this test only, since the tests share a server."""
    return f"findings-{uuid.uuid4()}"


def test_an_entry_is_what_was_asked_for(ada, intent):
    task = ada.create_task(intent.id, "read")
    space = fresh()
    made = ada.create_memory(
        ADA,
        space,
        "market/size",
        {"billions": 4.2, "of": ["eu", None]},
        memory_type="semantic",
        scope={"task_id": task.id},
        tags=["market", "eu"],
        ttl="P7D",
        pinned=True,
        priority="high",
        sensitivity="internal",
    )
    assert (made.agent_id, made.namespace, made.key, made.version) == (ADA, space, "market/size", 1)
    assert made.value == {"billions": 4.2, "of": ["eu", None]}
    assert (made.memory_type, made.priority) == (MemoryType.SEMANTIC, MemoryPriority.HIGH)
    assert (made.sensitivity, made.curated_by) == (MemorySensitivity.INTERNAL, ADA)
    assert (made.scope.task_id, made.scope.intent_id) == (task.id, intent.id)
    assert (made.tags, made.ttl, made.pinned) == (["market", "eu"], "P7D", True)
    assert recent(made.created_at) and recent(made.updated_at)
    assert made.expires_at == made.created_at + timedelta(days=7)
    assert ada.get_memory(made.id) == made
    assert ada.list_memory(ADA, namespace=space) == [made]


def test_what_is_not_said_has_its_default(ada):
    made = ada.create_memory(ADA, fresh(), "k", {})
    assert (made.memory_type, made.priority, made.pinned) == (MemoryType.WORKING, MemoryPriority.NORMAL, False)
    assert (made.scope, made.tags, made.ttl, made.expires_at, made.sensitivity) == (None, [], None, None, None)


def test_memory_is_listed_by_what_it_is(ada):
    space = fresh()
    for key, kind, tags in (("a", "working", ["x"]), ("b", "episodic", ["x", "y"]), ("c", "episodic", [])):
        ada.create_memory(ADA, space, key, {"is": key}, memory_type=kind, tags=tags)

    def keys(**wanted):
        return [entry.key for entry in ada.list_memory(ADA, namespace=space, **wanted)]

    assert keys() == ["c", "b", "a"]
    assert keys(memory_type="episodic") == ["c", "b"]
    assert keys(tags=["x"]) == ["b", "a"]
    assert keys(tags=["x", "y"]) == ["b"]
    assert keys(limit=1) == ["c"]
    assert keys(limit=1, offset=2) == ["a"]


def test_a_change_needs_the_version_that_is_current(ada):
    made = ada.create_memory(ADA, fresh(), "k", {"n": 1}, ttl="PT1H", tags=["a"])
    changed = ada.update_memory(made.id, made.version, value={"n": 2}, pinned=True, priority="low")
    assert (changed.version, changed.value, changed.pinned) == (2, {"n": 2}, True)
    assert (changed.priority, changed.tags, changed.ttl) == (MemoryPriority.LOW, ["a"], "PT1H")
    assert changed.expires_at == made.expires_at
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.update_memory(made.id, 1, value={"n": 3})
    assert caught.value.current_version == 2
    assert ada.get_memory(made.id) == changed


def test_a_key_is_taken_once(ada):
    space = fresh()
    made = ada.create_memory(ADA, space, "release", {"n": 1})
    with refused(ConflictError, 409, "already_exists") as caught:
        ada.create_memory(ADA, space, "release", {"n": 2})
    assert caught.value.current_version == made.version
    ada.delete_memory(made.id)
    assert ada.create_memory(ADA, space, "release", {"n": 2}).value == {"n": 2}


def test_what_is_forgotten_is_gone(ada):
    space = fresh()
    made = ada.create_memory(ADA, space, "k", {})
    ada.delete_memory(made.id)
    assert ada.list_memory(ADA, namespace=space) == []
    with refused(NotFoundError, 404, "not_found"):
        ada.get_memory(made.id)


def test_memory_is_its_agents_own(ada, bob, intent):
    space = fresh()
    own = ada.create_memory(ADA, space, "own", {})
    shared = ada.create_memory(ADA, space, "shared", {}, scope={"intent_id": intent.id})
    assert bob.list_memory(ADA, namespace=space) == [shared]
    assert bob.get_memory(shared.id) == shared
    with refused(NotFoundError, 404, "not_found"):
        bob.get_memory(own.id)
    with refused(NotFoundError, 404, "not_found"):
        bob.update_memory(own.id, 1, pinned=True)
    with refused(NotFoundError, 404, "not_found"):
        bob.delete_memory(own.id)
    with refused(OpenIntentError, 403, "may_not_act_as"):
        bob.create_memory(ADA, space, "theirs", {})


def test_an_intents_log_tells_what_is_shared_on_it(ada, intent):
    space = fresh()
    made = ada.create_memory(ADA, space, "k", {"secret": 1}, memory_type="working", scope={"intent_id": intent.id})
    ada.update_memory(made.id, 1, pinned=True)
    ada.delete_memory(made.id)
    events = [event for event in ada.get_events(intent.id) if event.event_type.value.startswith("memory.")]
    assert [event.event_type.value for event in events] == ["memory.deleted", "memory.updated", "memory.created"]
    assert all(event.payload["entry_id"] == made.id and "value" not in event.payload for event in events)


def test_what_is_no_memory_is_refused(ada):
    space = fresh()
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_memory(ADA, space, "k", {}, memory_type="iconic")
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.create_memory(ADA, space, "k", {}, ttl="soon")
    with refused(NotFoundError, 404, "not_found"):
        ada.create_memory(ADA, space, "k", {}, scope={"intent_id": INTENT})
    with refused(NotFoundError, 404, "not_found"):
        ada.create_memory(ADA, space, "k", {}, scope={"task_id": TASK})
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.list_memory(ADA, memory_type="iconic")
    for call in (lambda: ada.get_memory(MEMORY), lambda: ada.delete_memory(MEMORY), lambda: ada.update_memory(MEMORY, 1)):
        with refused(NotFoundError, 404, "not_found"):
            call()
