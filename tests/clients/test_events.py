# An intent's log through the SDK (OI-5.5, OI-5.6): appending and listing events, the validity of its hash chain, and
# that the SDK can read every type in it.

import enum
from datetime import timedelta, timezone

import pytest
from kit import INTENT, now, recent, refused
from openintent import AccessPolicy, EventType, IntentStatus, NotFoundError, OpenIntentError, Permission

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_an_event_is_what_was_logged(ada, intent):
    cause = ada.log_event(intent.id, EventType.COMMENT)
    payload = {"note": "ä", "nested": {"n": [1, None, 1.5]}}
    event = ada.log_event(intent.id, EventType.COMMENT, payload, trace_id=TRACE, parent_event_id=cause.id)
    assert (event.intent_id, event.event_type, event.actor) == (intent.id, EventType.COMMENT, "agent.ada")
    assert (event.payload, event.trace_id, event.parent_event_id) == (payload, TRACE, cause.id)
    assert recent(event.created_at)
    # Its position in the chain (RFC-0019), after the event of the intent's creation.
    assert (event.sequence, event.previous_event_hash) == (3, cause.event_hash)
    assert event.event_hash.startswith("sha256:")
    assert ada.get_events(intent.id)[:2] == [event, cause]


def test_events_are_listed_newest_first_up_to_a_limit(ada, intent):
    logged = [ada.log_event(intent.id, EventType.COMMENT, {"n": n}) for n in range(4)]
    assert ada.get_events(intent.id, limit=3) == [logged[3], logged[2], logged[1]]
    assert [event.event_type for event in ada.get_events(intent.id)][-1] == EventType.INTENT_CREATED


def test_events_are_filtered(ada, intent):
    ada.update_state(intent.id, 1, {"a": 1})
    first = ada.log_event(intent.id, EventType.COMMENT, {"n": 1})
    second = ada.log_event(intent.id, EventType.COMMENT, {"n": 2})
    assert ada.get_events(intent.id, event_type=EventType.COMMENT) == [second, first]
    assert ada.get_events(intent.id, event_type=EventType.LEASE_ACQUIRED) == []
    # A time without an offset is UTC; one with an offset is converted.
    assert ada.get_events(intent.id, since=first.created_at) == [second]
    east = timezone(timedelta(hours=5, minutes=30))
    aware = first.created_at.replace(tzinfo=timezone.utc).astimezone(east)
    assert ada.get_events(intent.id, since=aware) == [second]
    assert ada.get_events(intent.id, since=now() + timedelta(hours=1)) == []


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_page_of_no_lawful_size_is_refused(ada, intent, limit):
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.get_events(intent.id, limit=limit)


def test_an_unknown_intent_has_no_log(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.log_event(INTENT, EventType.COMMENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_events(INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.verify_event_chain(INTENT)


def test_every_type_of_the_sdk_can_be_logged_and_read(ada, intent):
    logged = [ada.log_event(intent.id, kind) for kind in EventType]
    assert [event.event_type for event in logged] == list(EventType)
    assert ada.get_events(intent.id, limit=len(logged)) == logged[::-1]


def test_a_type_of_another_client_spoils_no_page(ada, intent):
    class Foreign(enum.Enum):
        NOTE = "note"

    event = ada.log_event(intent.id, Foreign.NOTE, {"n": 1})
    assert (event.event_type, event.payload) == (EventType.COMMENT, {"n": 1})
    assert ada.get_events(intent.id)[0] == event


def test_whatever_the_server_logs_can_be_read(ada, intent):
    """One unknown type in a page makes the whole page unreadable for the SDK (OI-3.7.3)."""
    ada.grant_access(intent.id, "agent.bob", permission=Permission.WRITE)
    asked = [ada.request_access(intent.id, "agent.ada") for _ in range(2)]
    ada.approve_access_request(intent.id, asked[0].id)
    ada.deny_access_request(intent.id, asked[1].id)
    ada.set_acl(intent.id, AccessPolicy.OPEN)
    ada.assign_agent(intent.id, "agent.bob")
    ada.unassign_agent(intent.id, "agent.bob")
    channel = ada.create_channel(intent.id, "audited", options={"audit": True})["id"]
    request = ada.send_message(channel, "agent.ada", to="agent.ada", message_type="request")
    ada.reply_to(channel, request["id"], "agent.ada")
    ada.mark_read(channel, request["id"])
    ada.close_channel(channel)
    ada.update_state(intent.id, 1, {"a": 1})
    ada.set_status(intent.id, 2, IntentStatus.COMPLETED)
    types = [event.event_type.value for event in ada.get_events(intent.id, limit=1000)][::-1]
    assert types == [
        "intent_created",
        "access_granted",
        "access_requested",
        "access_requested",
        "access_granted",
        "access_request_approved",
        "access_request_denied",
        "access_granted",
        "agent_assigned",
        "agent_unassigned",
        "channel.created",
        "channel.message",
        "channel.message",
        "channel.closed",
        "state_patched",
        "status_changed",
    ]


def test_a_chain_is_verified(ada, intent):
    ada.log_event(intent.id, EventType.COMMENT)
    found = ada.verify_event_chain(intent.id)
    assert (found.intent_id, found.valid, found.breaks) == (intent.id, True, [])
    assert (found.event_count, found.first_sequence, found.last_sequence) == (2, 1, 2)


# Events that the SDK logs by its own methods, with payloads of its own design.
LOGGED = {
    EventType.TOOL_CALL_STARTED: lambda sdk, intent: sdk.log_tool_call_started(intent, "grep", "t1", {"q": "x"}),
    EventType.TOOL_CALL_COMPLETED: lambda sdk, intent: sdk.log_tool_call_completed(
        intent, "grep", "t1", {"q": "x"}, result=[1], duration_ms=5
    ),
    EventType.TOOL_CALL_FAILED: lambda sdk, intent: sdk.log_tool_call_failed(
        intent, "grep", "t1", {"q": "x"}, error="no", duration_ms=5
    ),
    EventType.LLM_REQUEST_STARTED: lambda sdk, intent: sdk.log_llm_request_started(intent, "r1", "maker", "model", 2),
    EventType.LLM_REQUEST_COMPLETED: lambda sdk, intent: sdk.log_llm_request_completed(
        intent, "r1", "maker", "model", 2, response_content="yes"
    ),
    EventType.LLM_REQUEST_FAILED: lambda sdk, intent: sdk.log_llm_request_failed(
        intent, "r1", "maker", "model", 2, error="no"
    ),
    EventType.STREAM_STARTED: lambda sdk, intent: sdk.start_stream(intent, "s1", "maker", "model"),
    EventType.STREAM_CHUNK: lambda sdk, intent: sdk.log_stream_chunk(intent, "s1", 3, token_count=7),
    EventType.STREAM_COMPLETED: lambda sdk, intent: sdk.complete_stream(intent, "s1", "maker", "model", 4, 9),
    EventType.STREAM_CANCELLED: lambda sdk, intent: sdk.cancel_stream(intent, "s1", "maker", "model", reason="late"),
}


@pytest.mark.parametrize("kind", LOGGED)
def test_what_tools_and_models_do_is_logged(ada, intent, kind):
    event = LOGGED[kind](ada, intent.id)
    assert (event.event_type, event.actor) == (kind, "agent.ada")
    assert {"grep", "r1", "s1"} & set(map(str, event.payload.values()))
    assert ada.get_events(intent.id, event_type=kind) == [event]
    with refused(NotFoundError, 404, "not_found"):
        LOGGED[kind](ada, INTENT)
