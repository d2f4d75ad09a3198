# Tasks through the SDK (RFC-0012, OI-8): creating, reading, listing and changing them, and the necessary rights.

import pytest
from kit import INTENT, TASK, recent, refused
from openintent import ConflictError, NotFoundError, OpenIntentError, TaskStatus
from openintent.models import EventType, MemoryPolicy, ToolRequirement


def test_a_task_is_what_was_asked_for(ada, intent):
    first = ada.create_task(intent.id, "read")
    asked = {
        "description": "the annual report",
        "priority": "high",
        "input": {"pages": 12},
        "capabilities_required": ["ocr"],
        "depends_on": [first.id],
        "parent_task_id": first.id,
        "retry_policy": "fixed:5",
        "timeout_seconds": 60,
        "max_attempts": 2,
        "permissions": "own",
        "memory_policy": {"archive_on_completion": False, "inherit_from_parent": True, "max_entries": 3},
        "requires_tools": [{"service": "search", "scopes": ["web"], "required": True}],
        "metadata": {"team": "research"},
    }
    made = ada.create_task(intent.id, "write", **asked)
    assert (made.intent_id, made.name, made.version, made.status) == (intent.id, "write", 1, TaskStatus.PENDING)
    assert made.memory_policy == MemoryPolicy(False, True, 3, None)
    assert made.requires_tools == [ToolRequirement("search", ["web"], True)]
    for member in asked.keys() - {"memory_policy", "requires_tools"}:
        assert getattr(made, member) == asked[member], member
    assert (made.attempt, made.output, made.artifacts, made.blocks) == (1, None, [], [])
    assert recent(made.created_at)
    assert (made.started_at, made.completed_at, made.error, made.blocked_reason) == (None, None, None, None)
    assert ada.get_task(made.id) == made
    assert ada.get_task(first.id).blocks == [made.id]


def test_a_task_is_pending_when_made_and_then_ready(ada, intent):
    made = ada.create_task(intent.id, "read")
    assert made.status == TaskStatus.PENDING
    ready = ada.get_task(made.id)
    assert (ready.status, ready.version) == (TaskStatus.READY, made.version)


def test_tasks_are_listed_bare_by_status_and_in_pages(ada, intent):
    made = [ada.create_task(intent.id, name) for name in ("a", "b", "c")]
    ada.update_task(made[1].id, 1, "completed")
    assert [task.id for task in ada.list_tasks(intent.id)] == [task.id for task in made]
    assert [task.id for task in ada.list_tasks(intent.id, TaskStatus.COMPLETED)] == [made[1].id]
    assert [task.id for task in ada.list_tasks(intent.id, limit=1, offset=1)] == [made[1].id]
    assert ada.list_tasks(intent.id, TaskStatus.FAILED) == []


def test_a_task_goes_through_its_life(ada, bob, intent):
    task = ada.create_task(intent.id, "read")
    claimed = bob.update_task(task.id, task.version, "claimed", assigned_agent="agent.bob")
    assert (claimed.status, claimed.assigned_agent, claimed.version) == (TaskStatus.CLAIMED, "agent.bob", 2)
    running = bob.update_task(task.id, claimed.version, "running")
    assert recent(running.started_at)
    blocked = bob.update_task(task.id, running.version, "blocked", blocked_reason="no access")
    assert (blocked.status, blocked.blocked_reason) == (TaskStatus.BLOCKED, "no access")
    running = bob.update_task(task.id, blocked.version, "running")
    # Also without a status (OI-8.3).
    told = bob.update_task(task.id, running.version, output={"so": "far"}, artifacts=["https://example.org/a"])
    assert (told.status, told.output) == (TaskStatus.RUNNING, {"so": "far"})
    done = bob.update_task(task.id, told.version, "completed", output={"pages": 12})
    assert (done.status, done.output, done.artifacts) == (
        TaskStatus.COMPLETED,
        {"pages": 12},
        ["https://example.org/a"],
    )
    assert recent(done.completed_at)
    types = [event.event_type for event in ada.get_events(intent.id, limit=100)]
    assert types[:2] == [EventType.TASK_COMPLETED, EventType.TASK_CREATED]
    assert EventType.TASK_CLAIMED in types


@pytest.mark.parametrize("status", ["claimed", "running", "blocked", "completed", "failed", "cancelled", "skipped"])
def test_what_is_written_is_read_back(ada, intent, status):
    task = ada.create_task(intent.id, "read")
    assert ada.update_task(task.id, task.version, status, error="why").status == TaskStatus(status)
    assert ada.get_task(task.id).error == "why" or status == "completed"


def test_the_end_of_a_task_closes_its_channel(ada, intent):
    task = ada.create_task(intent.id, "read")
    channel = ada.create_channel(intent.id, "about it", task_id=task.id)
    ada.update_task(task.id, task.version, "completed")
    assert ada.get_channel(channel["id"])["status"] == "closed"


def test_a_change_needs_the_version_that_is_current(ada, intent):
    task = ada.create_task(intent.id, "release the lease")
    ada.update_task(task.id, 1, "claimed")
    # Neither the name nor the text makes it a lease conflict (OI-3.5.3): the error's exact type is asserted.
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.update_task(task.id, 1, "running")
    assert caught.value.current_version == 2
    with refused(NotFoundError, 404, "not_found"):
        ada.update_task(TASK, 1, "running")


def test_a_task_is_its_claimers(ada, bob, eve, intent):
    task = ada.create_task(intent.id, "read")
    claimed = bob.update_task(task.id, task.version, "claimed")
    with refused(OpenIntentError, 403, "forbidden"):
        eve.update_task(task.id, claimed.version, "completed")
    with refused(ConflictError, 409, "invalid_transition"):
        done = bob.update_task(task.id, claimed.version, "completed")
        bob.update_task(task.id, done.version, "running")


def test_what_is_no_task_is_refused(ada, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.create_task(INTENT, "read")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_task(intent.id, "")
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.create_task(intent.id, "read", depends_on=[TASK])
    with refused(NotFoundError, 404, "not_found"):
        ada.get_task(TASK)
    with refused(NotFoundError, 404, "not_found"):
        ada.list_tasks(INTENT)
