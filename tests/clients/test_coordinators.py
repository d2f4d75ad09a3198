# Coordinators through the SDK (RFC-0013): appointment, listing, heartbeats, and decisions.

from datetime import timedelta

import pytest
from kit import INTENT, recent, refused
from openintent import ConflictError, EventType, NotFoundError, OpenIntentError
from openintent.models import CoordinatorStatus, CoordinatorType, DecisionRecord, DecisionType, Guardrails

COORDINATOR = "coord_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


@pytest.fixture
def bobs(ada, intent):
    """Bob's appointment on Ada's intent."""
    return ada.create_coordinator_lease("agent.bob", intent.id)


def test_a_coordinator_is_appointed(ada, bob, eve, intent):
    rails = Guardrails(max_budget_usd=50.0, max_plan_versions=2)
    made = ada.create_coordinator_lease(
        "agent.bob", intent.id, coordinator_type="llm", guardrails=rails.to_dict(), metadata={"k": 1}
    )
    assert (made.agent_id, made.intent_id, made.role) == ("agent.bob", intent.id, "coordinator")
    assert (made.status, made.coordinator_type) == (CoordinatorStatus.ACTIVE, CoordinatorType.LLM)
    assert made.guardrails == rails and made.metadata == {"k": 1}
    assert recent(made.granted_at) and made.expires_at - made.granted_at == timedelta(seconds=300)
    assert bob.get_coordinator_lease(made.id) == made
    assert eve.list_coordinator_leases(intent.id) == [made]
    # Only one at a time, and only with admin rights on the intent.
    with refused(ConflictError, 409, "already_exists"):
        ada.create_coordinator_lease("agent.eve", intent.id)
    with refused(OpenIntentError, 403, "forbidden"):
        eve.create_coordinator_lease("agent.eve", intent.id, role="reviewer")
    for look in (ada.get_coordinator_lease, lambda _: ada.list_coordinator_leases(INTENT)):
        with refused(NotFoundError, 404, "not_found"):
            look(COORDINATOR)


def test_it_beats(ada, bob, intent, bobs):
    heard = bob.coordinator_heartbeat(bobs.id)
    assert (heard["status"], heard["coordinator_status"]) == ("ok", "active")
    assert recent(ada.get_coordinator_lease(bobs.id).last_heartbeat)
    assert ada.get_events(intent.id)[0].event_type == EventType.COORDINATOR_HEARTBEAT
    # The next heartbeat is not logged.
    bob.coordinator_heartbeat(bobs.id)
    assert len([e for e in ada.get_events(intent.id) if e.event_type == EventType.COORDINATOR_HEARTBEAT]) == 1
    with refused(OpenIntentError, 403, "forbidden"):
        ada.coordinator_heartbeat(bobs.id)


def test_it_says_what_it_decides_and_why(ada, bob, eve, intent, bobs):
    made = bob.create_decision_record(
        bobs.id,
        intent.id,
        DecisionType.PLAN_CREATED,
        "Four tasks",
        "Two of them can go on at once",
        alternatives_considered=[{"description": "one task"}],
        confidence=0.85,
    )
    record = DecisionRecord.from_dict(made)
    assert (record.coordinator_id, record.decision_type) == (bobs.id, DecisionType.PLAN_CREATED)
    assert record.alternatives_considered == [{"description": "one task"}] and recent(record.timestamp)
    assert eve.list_decision_records(intent.id) == [made]
    assert eve.list_decision_records(intent.id, limit=1) == [made]
    newest = ada.get_events(intent.id)[0]
    assert (newest.event_type, newest.payload["summary"]) == (EventType.COORDINATOR_DECISION, "Four tasks")
    with refused(OpenIntentError, 403, "forbidden"):
        ada.create_decision_record(bobs.id, intent.id, DecisionType.PLAN_CREATED, "Mine", "No")
    with refused(NotFoundError, 404, "not_found"):
        ada.list_decision_records(INTENT)
