# Access to intents through the SDK (RFC-0011, OI-7): lists, entries, requests, and that all of it is enforced.

from datetime import datetime, timedelta, timezone

import pytest
from kit import ENTRY, INTENT, eventually, now, recent, refused
from openintent import (
    AccessPolicy,
    AccessRequestStatus,
    EventType,
    NotFoundError,
    OpenIntentError,
    Permission,
)


@pytest.fixture
def closed(ada, intent):
    """An intent with access for Ada only."""
    ada.set_acl(intent.id, AccessPolicy.CLOSED)
    return intent


def may_read(sdk, intent) -> bool:
    try:
        return sdk.get_intent(intent.id).id == intent.id
    except OpenIntentError as error:
        assert error.status_code == 403
        return False


def test_an_intent_is_open_until_somebody_says_otherwise(ada, eve, intent):
    acl = ada.get_acl(intent.id)
    assert (acl.intent_id, acl.default_policy, acl.entries) == (intent.id, AccessPolicy.OPEN, [])
    assert eve.update_state(intent.id, intent.version, {"by": "eve"}).version == 2


def test_a_closed_list_keeps_out_whom_it_does_not_name(ada, bob, eve, intent):
    entries = [
        {"principal_id": "agent.bob", "permission": "write", "reason": "has the figures"},
        {"principal_id": "agent.dora"},
    ]
    acl = ada.set_acl(intent.id, AccessPolicy.CLOSED, entries)
    assert acl.default_policy == AccessPolicy.CLOSED
    first, second = acl.entries
    assert (first.principal_id, first.principal_type, first.permission) == ("agent.bob", "agent", Permission.WRITE)
    assert (first.granted_by, first.reason, first.expires_at) == ("agent.ada", "has the figures", None)
    assert recent(first.granted_at)
    assert (second.principal_id, second.permission) == ("agent.dora", Permission.READ)
    assert ada.get_acl(intent.id) == acl
    assert bob.update_state(intent.id, intent.version, {"by": "bob"}).version == 2
    for ask in (
        lambda: eve.get_intent(intent.id),
        lambda: eve.get_acl(intent.id),
        lambda: eve.update_state(intent.id, 2, {}),
        lambda: eve.get_events(intent.id),
        lambda: eve.log_event(intent.id, EventType.COMMENT),
        lambda: eve.create_channel(intent.id, "intruder"),
        lambda: eve.list_channels(intent.id),
        lambda: eve.assign_agent(intent.id),
    ):
        with refused(OpenIntentError, 403, "access_closed"):
            ask()
    assert intent.id not in [listed.id for listed in eve.list_intents(limit=100)]


def test_an_open_list_with_entries_lets_others_only_read(ada, eve, intent):
    ada.grant_access(intent.id, "agent.bob", permission=Permission.WRITE)
    assert eve.get_intent(intent.id) == intent
    with refused(OpenIntentError, 403, "forbidden"):
        eve.update_state(intent.id, intent.version, {})


def test_only_who_manages_an_intent_changes_its_list(ada, bob, intent):
    ada.grant_access(intent.id, "agent.bob", permission=Permission.WRITE)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.set_acl(intent.id, AccessPolicy.OPEN)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.grant_access(intent.id, "agent.bob", permission=Permission.ADMIN)
    ada.grant_access(intent.id, "agent.bob", permission=Permission.ADMIN)
    assert bob.set_acl(intent.id, AccessPolicy.CLOSED).entries == []


def test_an_entry_without_a_principal_is_refused(ada, intent):
    before = ada.get_acl(intent.id)
    with refused(OpenIntentError, 422, "invalid_request") as caught:
        ada.set_acl(intent.id, AccessPolicy.CLOSED, [{"permission": "read"}])
    assert "principal_id" in str(caught.value.response["errors"])
    assert ada.get_acl(intent.id) == before


def test_an_unknown_intent_has_no_list(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.get_acl(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.set_acl(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.grant_access(INTENT, "agent.bob")
    with refused(NotFoundError, 404, "not_found"):
        ada.list_access_requests(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.request_access(INTENT, "agent.ada")


def test_access_is_granted_and_revoked(ada, bob, closed):
    end = datetime.now(timezone(timedelta(hours=2))) + timedelta(hours=1)
    entry = ada.grant_access(closed.id, "agent.bob", "agent", Permission.WRITE, "for an hour", end)
    assert (entry.principal_id, entry.permission, entry.reason) == ("agent.bob", Permission.WRITE, "for an hour")
    assert entry.granted_by == "agent.ada"
    assert entry.expires_at.replace(tzinfo=timezone.utc) == end
    assert ada.get_acl(closed.id).entries == [entry]
    assert may_read(bob, closed)
    assert ada.revoke_access(closed.id, entry.id) is None
    assert not may_read(bob, closed)
    with refused(NotFoundError, 404, "not_found"):
        ada.revoke_access(closed.id, entry.id)
    with refused(NotFoundError, 404, "not_found"):
        ada.revoke_access(closed.id, ENTRY)


def test_an_entry_ends(ada, bob, closed):
    with refused(OpenIntentError, 422, "already_expired"):
        ada.grant_access(closed.id, "agent.bob", expires_at=now() - timedelta(seconds=1))
    # A time without an offset is UTC.
    ada.grant_access(closed.id, "agent.bob", expires_at=now() + timedelta(seconds=1))
    assert may_read(bob, closed)
    eventually(lambda: not may_read(bob, closed), "the end of an entry")
    assert ada.get_acl(closed.id).entries == []


def test_access_is_asked_for_without_any(ada, eve, closed):
    asked = eve.request_access(closed.id, "agent.eve", "agent", Permission.WRITE, "please", capabilities=["ocr"])
    assert (asked.intent_id, asked.principal_id, asked.principal_type) == (closed.id, "agent.eve", "agent")
    assert (asked.requested_permission, asked.reason, asked.capabilities) == (Permission.WRITE, "please", ["ocr"])
    assert asked.status == AccessRequestStatus.PENDING
    assert (asked.decided_by, asked.decided_at, asked.decision_reason) == (None, None, None)
    assert recent(asked.created_at)
    assert not may_read(eve, closed)
    assert ada.list_access_requests(closed.id) == [asked]


def test_one_sees_ones_own_requests_and_the_manager_all(ada, bob, eve, closed):
    bobs, eves = bob.request_access(closed.id, "agent.bob"), eve.request_access(closed.id, "agent.eve")
    assert ada.list_access_requests(closed.id) == [bobs, eves]
    assert bob.list_access_requests(closed.id) == [bobs]


def test_nobody_asks_in_anothers_name(eve, closed):
    with refused(OpenIntentError, 403, "may_not_act_as"):
        eve.request_access(closed.id, "agent.bob")


def test_a_request_is_approved(ada, eve, closed):
    asked = eve.request_access(closed.id, "agent.eve", permission=Permission.ADMIN)
    end = now() + timedelta(hours=1)
    decided = ada.approve_access_request(closed.id, asked.id, Permission.READ, end, "reading is enough")
    assert decided.status == AccessRequestStatus.APPROVED
    assert (decided.decided_by, decided.decision_reason) == ("agent.ada", "reading is enough")
    assert recent(decided.decided_at)
    assert decided.requested_permission == Permission.ADMIN
    [entry] = ada.get_acl(closed.id).entries
    assert (entry.principal_id, entry.permission, entry.expires_at) == ("agent.eve", Permission.READ, end)
    assert may_read(eve, closed)
    with refused(OpenIntentError, 403, "forbidden"):
        eve.update_state(closed.id, closed.version, {})


def test_a_request_is_denied(ada, eve, closed):
    asked = eve.request_access(closed.id, "agent.eve")
    decided = ada.deny_access_request(closed.id, asked.id, reason="no")
    assert (decided.status, decided.decided_by, decided.decision_reason) == (
        AccessRequestStatus.DENIED,
        "agent.ada",
        "no",
    )
    assert not may_read(eve, closed)


def test_a_decision_is_the_managers_and_final(ada, eve, closed):
    asked = eve.request_access(closed.id, "agent.eve")
    for decide in (eve.approve_access_request, eve.deny_access_request):
        with refused(OpenIntentError, 403, "access_closed"):
            decide(closed.id, asked.id)
    elsewhere = ada.create_intent("elsewhere", "")
    for decide in (ada.approve_access_request, ada.deny_access_request):
        with refused(NotFoundError, 404, "not_found"):
            decide(elsewhere.id, asked.id)
    ada.deny_access_request(closed.id, asked.id)
    # A decided request counts as missing (OI-7.6).
    for decide in (ada.approve_access_request, ada.deny_access_request):
        with refused(NotFoundError, 404, "not_found"):
            decide(closed.id, asked.id)


def test_a_key_for_any_agent_stands_where_its_agent_stands(connect, closed):
    stranger, owner = connect("agent.stranger"), connect("agent.ada", key="dev-user-key")
    assert not may_read(stranger, closed)
    asked = stranger.request_access(closed.id, "agent.stranger")
    assert owner.approve_access_request(closed.id, asked.id).decided_by == "agent.ada"
    assert may_read(stranger, closed)
