# Governance through the SDK (RFC-0013): enforced policies, approvals, escalations.

import contextlib

import pytest
from conftest import GRACE
from kit import INTENT, recent, refused
from openintent import (
    ConflictError,
    EventType,
    IntentStatus,
    NotFoundError,
    OpenIntentError,
    Permission,
    ValidationError,
)

APPROVAL = "apr_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
ESCALATION = "esc_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


@contextlib.contextmanager
def violates(rule: str):
    """Requires a refusal by a rule of the policy, with the object that clients of the reference server read
    (OI-3.5.2)."""
    with refused(OpenIntentError, 403, "governance_violation") as caught:
        yield
    detail = caught.value.response["detail"]
    assert (detail["error"], detail["rule"]) == ("governance_violation", rule)
    assert detail["message"] == caught.value.response["message"]


def governed(ada, **policy):
    return ada.create_intent("governed", "", governance_policy=policy)


def newest(sdk, intent):
    return sdk.get_events(intent.id)[0]


def test_a_policy_is_set_read_and_removed(ada, bob, intent):
    none = bob.get_governance_policy(intent.id)
    assert (none["intent_id"], none["governance_policy"]) == (intent.id, {})
    assert none["effective_policy"]["completion_mode"] == "auto"
    policy = {"completion_mode": "quorum", "quorum_threshold": 0.5, "max_cost": 10, "allowed_agents": ["agent.bob"]}
    changed = ada.set_governance_policy(intent.id, intent.version, policy)
    assert (changed.id, changed.version) == (intent.id, intent.version + 1)
    assert changed.effective_governance.to_dict() == {"write_scope": "any"} | policy
    assert bob.get_governance_policy(intent.id)["governance_policy"] == policy
    assert newest(bob, intent).event_type == EventType.GOVERNANCE_POLICY_SET
    removed = ada.remove_governance_policy(intent.id, changed.version)
    assert (removed.version, removed.governance_policy) == (changed.version + 1, None)
    assert newest(bob, intent).event_type == EventType.GOVERNANCE_POLICY_REMOVED


def test_what_cannot_be_set_is_refused(ada, bob, intent):
    with refused(ConflictError, 409, "version_conflict"):
        ada.set_governance_policy(intent.id, 7, {})
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.set_governance_policy(intent.id, intent.version, {"completion_mode": "never"})
    with refused(OpenIntentError, 403, "forbidden"):
        bob.set_governance_policy(intent.id, intent.version, {})
    with refused(ConflictError, 409, "version_conflict"):
        ada.remove_governance_policy(intent.id, 7)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_governance_policy(INTENT)
    with refused(ValidationError, 400, "if_match_required"):
        ada.set_governance_policy(intent.id, "", {})


def test_work_is_for_those_who_are_assigned(ada, bob):
    intent = governed(ada, write_scope="assigned_only")
    with violates("write_scope"):
        bob.update_state(intent.id, intent.version, {"by": "bob"})
    with violates("write_scope"):
        bob.log_event(intent.id, EventType.COMMENT, {})
    assert newest(ada, intent).event_type == EventType.GOVERNANCE_VIOLATION
    ada.assign_agent(intent.id, "agent.bob")
    assert bob.update_state(intent.id, intent.version, {"by": "bob"}).version == intent.version + 1


def test_a_status_needs_its_reason(ada):
    intent = governed(ada, require_status_reason=True)
    with violates("require_status_reason"):
        ada.set_status(intent.id, intent.version, IntentStatus.ACTIVE)
    assert ada.set_status(intent.id, intent.version, IntentStatus.ACTIVE, "go").status == IntentStatus.ACTIVE


def test_a_completion_is_approved_first(ada, bob):
    intent = governed(ada, completion_mode="require_approval")
    with violates("completion_mode"):
        ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)
    asked = ada.request_approval(intent.id, "complete", "all is in", {"figures": 12})
    assert (asked.intent_id, asked.requested_by, asked.action) == (intent.id, "agent.ada", "complete")
    assert (asked.reason, asked.context, asked.status) == ("all is in", {"figures": 12}, "pending")
    assert recent(asked.created_at) and asked.decided_at is None
    with refused(OpenIntentError, 403, "forbidden"):
        ada.approve_approval(intent.id, asked.id)
    assert bob.approve_approval(intent.id, asked.id)["status"] == "approved"
    assert newest(ada, intent).event_type == EventType.GOVERNANCE_APPROVAL_GRANTED
    found = ada.get_approval_status(intent.id, asked.id)
    assert (found.status, found.decided_by) == ("approved", "agent.bob")
    assert recent(found.decided_at)
    with refused(ConflictError, 409, "already_decided"):
        bob.approve_approval(intent.id, asked.id)
    assert ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED).status == IntentStatus.COMPLETED
    types = [event.event_type for event in ada.get_events(intent.id, limit=2)]
    assert types == [EventType.STATUS_CHANGED, EventType.GOVERNANCE_APPROVAL_ENFORCED]


def test_a_request_is_denied(ada, bob):
    intent = governed(ada, completion_mode="require_approval")
    asked = ada.request_approval(intent.id, "complete")
    assert bob.deny_approval(intent.id, asked.id)["status"] == "denied"
    assert newest(ada, intent).event_type == EventType.GOVERNANCE_APPROVAL_DENIED
    with refused(ConflictError, 409, "already_decided"):
        bob.deny_approval(intent.id, asked.id)
    with violates("completion_mode"):
        ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)


def test_a_quorum_takes_several(ada, bob, eve):
    intent = governed(ada, completion_mode="quorum", quorum_threshold=1.0)
    for agent in ("agent.bob", "agent.eve"):
        ada.assign_agent(intent.id, agent)
    asked = ada.request_approval(intent.id, "complete")
    assert bob.approve_approval(intent.id, asked.id)["status"] == "pending"
    with violates("completion_mode"):
        ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)
    assert eve.approve_approval(intent.id, asked.id)["status"] == "approved"
    assert ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED).status == IntentStatus.COMPLETED


def test_nobody_finds_what_is_not_there(ada, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.request_approval(INTENT, "complete")
    for ask in (ada.get_approval_status, ada.approve_approval, ada.deny_approval):
        with refused(NotFoundError, 404, "not_found"):
            ask(intent.id, APPROVAL)


def test_a_person_is_asked_and_answers(ada, bob, intent, connect):
    made = bob.escalate_to_human(intent.id, "two sources", "high", "critical", {"sources": 2})
    assert (made.intent_id, made.escalated_by, made.reason) == (intent.id, "agent.bob", "two sources")
    assert (made.priority, made.urgency, made.context) == ("high", "critical", {"sources": 2})
    assert (made.status, made.resolved_at) == ("pending", None)
    assert recent(made.created_at)
    assert bob.list_escalations(intent.id) == [made]
    assert made.id in [listed.id for listed in ada.list_escalations(status="pending")]
    # No agent resolves an escalation to people, and in particular not the agent that escalated.
    for agent in (ada, bob):
        with refused(OpenIntentError, 403, "not_the_principal"):
            agent.resolve_escalation(made.id, "the second")
    grace = connect(*GRACE)
    done = grace.resolve_escalation(made.id, "the second", "the first was retracted")
    assert (done.status, done.resolved_by, done.resolution) == ("resolved", "human.grace", "the second")
    assert (done.resolution_notes, recent(done.resolved_at)) == ("the first was retracted", True)
    assert newest(bob, intent).event_type == EventType.COORDINATOR_ESCALATION_RESOLVED
    assert bob.list_escalations(intent.id, "pending") == []
    with refused(ConflictError, 409, "already_decided"):
        grace.resolve_escalation(made.id, "the first")


def test_escalations_are_refused(ada, eve, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.escalate_to_human(INTENT, "why")
    with refused(NotFoundError, 404, "not_found"):
        ada.list_escalations(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.resolve_escalation(ESCALATION, "so")
    ada.grant_access(intent.id, "agent.bob", permission=Permission.WRITE)
    with refused(OpenIntentError, 403, "forbidden"):
        eve.escalate_to_human(intent.id, "why")


@pytest.mark.parametrize("policy", [None, {}])
def test_without_a_policy_all_is_as_it_was(ada, bob, policy):
    intent = ada.create_intent("free", "", governance_policy=policy)
    assert intent.effective_governance.is_default
    patched = bob.update_state(intent.id, intent.version, {"by": "bob"})
    assert bob.set_status(intent.id, patched.version, IntentStatus.COMPLETED).status == IntentStatus.COMPLETED
