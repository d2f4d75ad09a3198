# Leases through the SDK (RFC-0003, OI-6): acquiring, renewing, releasing and listing them; and their effect on
# others.

from datetime import timedelta

import pytest
from kit import INTENT, eventually, now, recent, refused
from openintent import (
    AccessPolicy,
    ConflictError,
    EventType,
    LeaseConflictError,
    LeaseStatus,
    NotFoundError,
    OpenIntentError,
)

LEASE = "lease_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


def test_a_lease_is_acquired(ada, bob, intent):
    lease = ada.acquire_lease(intent.id, "research", 60)
    assert (lease.intent_id, lease.agent_id, lease.scope) == (intent.id, "agent.ada", "research")
    assert lease.status == LeaseStatus.ACTIVE
    assert recent(lease.created_at) and lease.expires_at - lease.created_at == timedelta(seconds=60)
    # The SDK compares with this host's local time, which equals the server's only in UTC (OI-3.6.3).
    assert now() < lease.expires_at
    assert bob.get_leases(intent.id) == [lease]
    assert ada.get_events(intent.id)[0].event_type == EventType.LEASE_ACQUIRED


def test_a_scope_that_is_held_is_refused_and_says_by_whom(ada, bob, intent):
    lease = ada.acquire_lease(intent.id, "research")
    for sdk in (bob, ada):
        with refused(LeaseConflictError, 409, "lease_held") as caught:
            sdk.acquire_lease(intent.id, "research")
        existing = caught.value.existing_lease
        assert (existing["id"], existing["agent_id"]) == (lease.id, "agent.ada")
        # In the form that the SDK itself would parse.
        assert type(lease).from_dict(existing) == lease
    assert bob.acquire_lease(intent.id, "synthesis").agent_id == "agent.bob"
    with refused(OpenIntentError, 422, "unprocessable"):
        bob.acquire_lease(intent.id, "later", -1)


def test_a_lease_is_renewed_and_the_log_stays_readable(ada, bob, intent):
    lease = ada.acquire_lease(intent.id, "research", 60)
    renewed = ada.renew_lease(intent.id, lease.id, 600)
    assert (renewed.id, renewed.status, renewed.created_at) == (lease.id, LeaseStatus.ACTIVE, lease.created_at)
    assert renewed.expires_at - lease.expires_at > timedelta(seconds=500)
    # One unknown event type would make this call raise (OI-3.7.3).
    newest = ada.get_events(intent.id)[0]
    assert (newest.event_type, newest.payload["renewed"]) == (EventType.LEASE_ACQUIRED, True)
    for sdk, lease_id in ((bob, lease.id), (ada, LEASE)):
        with refused(NotFoundError, 404, "not_found"):
            sdk.renew_lease(intent.id, lease_id)
    ada.release_lease(intent.id, lease.id)
    with refused(LeaseConflictError, 409, "lease_ended"):
        ada.renew_lease(intent.id, lease.id)


def test_a_lease_is_given_back_once_or_twice(ada, bob, intent):
    lease = ada.acquire_lease(intent.id, "research")
    with refused(NotFoundError, 404, "not_found"):
        bob.release_lease(intent.id, lease.id)
    assert ada.release_lease(intent.id, lease.id) is None
    assert ada.release_lease(intent.id, lease.id) is None
    assert ada.get_leases(intent.id) == []
    assert ada.get_events(intent.id)[0].event_type == EventType.LEASE_RELEASED
    assert bob.acquire_lease(intent.id, "research").agent_id == "agent.bob"


def test_a_lease_that_runs_out_is_free(ada, bob, intent):
    ada.acquire_lease(intent.id, "research", 1)

    def taken():
        try:
            return bob.acquire_lease(intent.id, "research")
        except LeaseConflictError:
            return None

    assert eventually(taken, "the end of a lease").agent_id == "agent.bob"


def test_a_lease_guards_its_part_of_the_state(ada, bob, intent):
    bob.acquire_lease(intent.id, "research")
    with refused(LeaseConflictError, 409, "lease_held") as caught:
        ada.update_state(intent.id, intent.version, {"research": 1})
    assert caught.value.existing_lease["agent_id"] == "agent.bob"
    assert bob.update_state(intent.id, intent.version, {"research": 1}).version == 2
    assert ada.update_state(intent.id, 2, {"synthesis": 1}).version == 3
    # A version conflict is not mistaken for a lease conflict, by the SDK either (OI-3.5.3).
    with refused(ConflictError, 409, "version_conflict"):
        bob.update_state(intent.id, 1, {"research": 2})


def test_what_is_not_there_or_closed_holds_nothing(ada, eve, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.get_leases(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.acquire_lease(INTENT, "research")
    lease = eve.acquire_lease(intent.id, "research")
    ada.set_acl(intent.id, AccessPolicy.CLOSED)
    for ask in (
        lambda: eve.get_leases(intent.id),
        lambda: eve.renew_lease(intent.id, lease.id),
        lambda: eve.release_lease(intent.id, lease.id),
    ):
        with refused(OpenIntentError, 403, "access_closed"):
            ask()
    # Revoking cascades (OI-7.4).
    assert ada.get_leases(intent.id) == []


@pytest.fixture
def in_turn(connect):
    """Clients with the context manager: the synchronous ones."""
    return connect("agent.ada", flavour="sync"), connect("agent.bob", flavour="sync")


def test_a_lease_is_held_for_a_block(in_turn, intent):
    ada, bob = in_turn
    with ada.lease(intent.id, "research") as lease:
        assert lease.agent_id == "agent.ada"
        with refused(LeaseConflictError, 409, "lease_held"):
            bob.acquire_lease(intent.id, "research")
    assert ada.get_leases(intent.id) == []
