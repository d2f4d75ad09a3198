# Streams through the SDK's own readers (OI-11): events, recipients, and names; resuming, refusals.

import threading
import time

import httpx
import pytest
from conftest import AGENTS, SERVICE
from kit import INTENT, PATIENCE, Inbox, eventually, following, refused
from openintent import (
    AccessPolicy,
    EventQueue,
    EventType,
    IntentStatus,
    OpenIntentError,
    SSEEventType,
    SSEStream,
    SSESubscription,
)


@pytest.fixture
def flavour():
    """Only the synchronous client has streams."""
    return "sync"


def headers(agent: str) -> dict[str, str]:
    return {"X-API-Key": AGENTS.get(agent, SERVICE), "X-Agent-ID": agent}


def increasing(events) -> bool:
    ids = [int(event.id) for event in events]
    return ids == sorted(set(ids))


def test_an_intent_is_followed(ada, intent, channel):
    with following(ada.subscribe_sse(intent.id)) as inbox:
        ada.update_state(intent.id, 1, {"progress": {"percent": 1}})
        ada.update_state(intent.id, 2, {"progress/percent": 50})
        ada.set_status(intent.id, 3, IntentStatus.ACTIVE, reason="go")
        ada.assign_agent(intent.id, "agent.bob")
        comment = ada.log_event(intent.id, EventType.COMMENT, {"note": "done"})
        ada.log_event(intent.id, EventType.STATE_PATCHED)
        events = inbox.until("state_patched")
    assert [event.type for event in events] == [
        SSEEventType.STATE_CHANGED,
        SSEEventType.STATE_CHANGED,
        SSEEventType.STATUS_CHANGED,
        SSEEventType.AGENT_ASSIGNED,
        "comment",
    ]
    assert increasing(events)
    _, patched, moved, assigned, commented = events
    assert patched.data["old_state"] == {"progress": {"percent": 1}}
    assert patched.data["new_state"] == {"progress": {"percent": 50}}
    assert (moved.data["old_status"], moved.data["new_status"], moved.data["reason"]) == ("draft", "active", "go")
    assert (assigned.agent_id, assigned.data["role"]) == ("agent.bob", "worker")
    assert (commented.data["id"], commented.data["payload"]) == (comment.id, {"note": "done"})
    assert {event.intent_id for event in events} == {intent.id}


def test_what_is_said_on_an_intent_is_followed(ada, bob, intent, channel):
    with following(ada.subscribe_sse(intent.id)) as inbox:
        request = ada.send_message(channel, "agent.ada", "agent.bob", "request", {"q": 1})
        bob.mark_read(channel, request["id"])
        answer = bob.reply_to(channel, request["id"], "agent.bob", {"a": 2})
        # The SDK closes a channel by deleting it, and a stream that is behind then no longer shows what was said there.
        asked, read, answered = [inbox.next_of_any() for _ in range(3)]
        ada.close_channel(channel)
        assert inbox.until("channel.closed") == []
    where = {"intent_id": intent.id, "channel_name": "talk"}
    assert (asked.type, asked.data) == ("channel_message", request | where)
    assert (answered.type, answered.data) == ("channel_message", answer | where)
    assert (read.type, read.data["message_id"], read.data["agent_id"]) == (
        "message_read",
        request["id"],
        "agent.bob",
    )
    assert increasing([asked, read, answered])


def test_directed_mail_is_streamed_to_its_parties(ada, bob, eve, intent, channel):
    with following(bob.subscribe_sse(intent.id)) as bobs, following(eve.subscribe_sse(intent.id)) as eves:
        ada.send_message(channel, "agent.ada", "agent.bob", payload={"secret": 1})
        ada.send_message(channel, "agent.ada", payload={"open": 1})
        assert [bobs.next("channel_message").data["payload"] for _ in range(2)] == [{"secret": 1}, {"open": 1}]
        assert eves.next("channel_message").data["payload"] == {"open": 1}


def test_the_reference_servers_paths_have_its_names(url, ada, intent):
    stream = SSEStream(f"{url}/api/v1/subscribe/intents/{intent.id}", headers("agent.ada"))
    with following(stream) as inbox:
        ada.update_state(intent.id, 1, {"a": 1})
        ada.set_status(intent.id, 2, IntentStatus.ACTIVE)
        patched, moved = inbox.next("state_patched"), inbox.next("status_changed")
    assert (patched.data["id"], patched.data["state"], patched.data["version"]) == (intent.id, {"a": 1}, 2)
    assert (moved.data["status"], moved.data["version"]) == ("active", 3)


@pytest.mark.parametrize("path", ["channels/{}/subscribe", "subscribe/channels/{}"])
def test_a_channel_is_followed(url, ada, bob, intent, channel, path):
    other = ada.create_channel(intent.id, "other")["id"]
    with following(SSEStream(f"{url}/api/v1/{path.format(channel)}", headers("agent.bob"))) as inbox:
        ada.send_message(other, "agent.ada", payload={"elsewhere": 1})
        sent = ada.send_message(channel, "agent.ada", payload={"here": 1})
        assert inbox.next_of_any().data["id"] == sent["id"]


def test_everything_that_one_may_see_is_followed(url, ada, eve):
    with following(SSEStream(f"{url}/api/v1/subscribe", headers("agent.eve"))) as inbox:
        hidden = ada.create_intent("hidden", "")
        ada.set_acl(hidden.id, AccessPolicy.CLOSED)
        ada.update_state(hidden.id, 1, {"secret": 1})
        shown = ada.create_intent("shown", "")
        ada.update_state(shown.id, 1, {"open": 1})
        assert inbox.next("state_patched").data["id"] == shown.id


def about(inbox, *intents):
    """Returns the next event of these intents: an agent's stream begins with its assignments of other tests."""
    while (event := inbox.next_of_any()).intent_id not in intents:
        pass
    return event


def test_an_agent_hears_of_its_work(url, ada, bob, intent, channel):
    elsewhere = ada.create_intent("elsewhere", "")
    # The SDK's own address has the events that its agents act on, and this one all of them (OI-11.7).
    everything = SSEStream(f"{url}/api/v1/agents/agent.bob/subscribe?event_types=*", headers("agent.bob"))
    with following(bob.subscribe_agent()) as inbox, following(everything) as full:
        ada.assign_agent(elsewhere.id, "agent.eve")
        ada.update_state(elsewhere.id, 1, {"not": "bob's"})
        letter = ada.send_message(channel, "agent.ada", "agent.bob")
        ada.assign_agent(intent.id, "agent.bob")
        ada.update_state(intent.id, 1, {"a": 1})
        heard = [about(full, intent.id, elsewhere.id) for _ in range(3)]
        acted_on = [about(inbox, intent.id, elsewhere.id) for _ in range(2)]
    assert [event.type for event in heard] == ["channel_message", "AGENT_ASSIGNED", "STATE_CHANGED"]
    assert heard[0].data["id"] == letter["id"]
    # Ada is not assigned herself, so she delegates nothing.
    assert (heard[1].intent_id, heard[1].agent_id, heard[1].data["delegated_by"]) == (
        intent.id,
        "agent.bob",
        None,
    )
    assert heard[2].data["new_state"] == {"a": 1}
    assert [(event.type, event.data) for event in acted_on] == [(event.type, event.data) for event in heard[1:]]


def test_an_agent_that_subscribes_late_is_told_its_assignments_once(url, ada, bob, intent):
    ada.assign_agent(intent.id, "agent.bob")
    with following(bob.subscribe_agent()) as inbox:
        told = about(inbox, intent.id)
    assert (told.type, told.agent_id) == (SSEEventType.AGENT_ASSIGNED, "agent.bob")
    # A reader that resumes hears only of what comes after it.
    resumed = SSEStream(
        f"{url}/api/v1/agents/agent.bob/subscribe", headers("agent.bob") | {"Last-Event-ID": told.id}
    )
    with following(resumed) as inbox:
        ada.update_state(intent.id, 1, {"a": 1})
        assert about(inbox, intent.id).type == SSEEventType.STATE_CHANGED


def test_an_unknown_event_type_is_refused_with_the_known_ones(url):
    path = f"{url}/api/v1/agents/agent.bob/subscribe?event_types=AGENT_ASIGNED"
    answer = httpx.get(path, headers=headers("agent.bob"), timeout=PATIENCE)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")
    assert "AGENT_ASSIGNED" in answer.json()["message"]


@pytest.mark.parametrize(
    ("follow", "status"),
    [
        (lambda sdk: sdk.subscribe_sse(INTENT), 404),
        (lambda sdk: sdk.subscribe_sse("nonsense"), 404),
        (lambda sdk: sdk.subscribe_agent("agent.bob"), 403),
        (lambda sdk: SSEStream(f"{sdk.base_url}/api/v1/subscribe", {"X-API-Key": "wrong"}), 401),
    ],
    ids=["an intent of nobody's", "no id", "another's own", "no key"],
)
def test_a_refused_stream_is_an_event_and_no_flood(ada, follow, status):
    """The SDK reconnects at once and for ever, so the server delays its answer (OI-11.4.2)."""
    stream, came = follow(ada), []
    begun = time.monotonic()
    for event in stream:
        assert (event.type, event.data["status_code"]) == (SSEEventType.ERROR, status)
        came.append(time.monotonic() - begun)
        if len(came) == 2:
            break
    stream.stop()
    # The server holds each refusal for the second that conftest.py sets.
    assert came[0] >= 0.9 and came[1] >= 1.9


def test_a_reader_that_lost_its_access_resumes_without_a_gap(ada, eve, intent):
    """The server breaks off a stream to end it; the SDK then waits, and reconnects with its last id."""
    with following(eve.subscribe_sse(intent.id)) as inbox:
        ada.log_event(intent.id, EventType.COMMENT, {"n": 1})
        assert inbox.next("comment").data["payload"] == {"n": 1}
        ada.set_acl(intent.id, AccessPolicy.CLOSED)
        assert inbox.next(SSEEventType.ERROR).data["status_code"] == 403
        with refused(OpenIntentError, 403, "access_closed"):
            eve.get_intent(intent.id)
        ada.log_event(intent.id, EventType.COMMENT, {"n": 2})
        ada.set_acl(intent.id, AccessPolicy.OPEN)
        ada.log_event(intent.id, EventType.COMMENT, {"n": 3})
        assert [inbox.next("comment").data["payload"]["n"] for _ in range(2)] == [2, 3]


@pytest.mark.parametrize("kind", ["intent", "agent"])
def test_a_new_reader_resumes_after_an_id(url, ada, intent, kind):
    ada.assign_agent(intent.id)
    path = {"intent": f"intents/{intent.id}", "agent": "agents/agent.ada"}[kind]
    address = f"{url}/api/v1/{path}/subscribe?event_types=comment"
    with following(SSEStream(address, headers("agent.ada"))) as inbox:
        ada.log_event(intent.id, EventType.COMMENT, {"n": 1})
        seen = inbox.next("comment")
        ada.log_event(intent.id, EventType.COMMENT, {"n": 2})
        missed = inbox.next("comment")
    ada.log_event(intent.id, EventType.COMMENT, {"n": 3})
    with following(SSEStream(address, headers("agent.ada") | {"Last-Event-ID": seen.id})) as inbox:
        ada.log_event(intent.id, EventType.COMMENT, {"n": 4})
        again = [inbox.next("comment") for _ in range(3)]
    assert {event.intent_id for event in again} == {intent.id}
    assert [event.data["payload"]["n"] for event in again] == [2, 3, 4]
    assert again[0].id == missed.id


def test_the_deletion_of_a_channel_breaks_its_stream(url, ada, channel):
    stream = SSEStream(f"{url}/api/v1/channels/{channel}/subscribe", headers("agent.ada"))
    with following(stream) as inbox:
        begun = time.monotonic()
        ada.close_channel(channel)
        assert inbox.next(SSEEventType.ERROR).data["status_code"] == 404
        # After a clean end the SDK would reconnect at once. After a broken one it waits for the second that the server
        # requested, and the refusal takes another.
        assert time.monotonic() - begun >= 1.9


def knock(ada, intent, heard) -> None:
    """Logs events until one is received: the SDK's queue and subscription do not tell when they are open."""

    def look():
        ada.log_event(intent.id, EventType.COMMENT, {"knock": True})
        return heard()

    eventually(look, "an answer to a knock")


@pytest.mark.parametrize(
    "asked",
    [
        lambda sdk, intent: sdk.create_event_queue(intent_id=intent.id),
        lambda sdk, intent: sdk.create_event_queue(agent_id="agent.ada"),
        lambda sdk, intent: sdk.create_event_queue(),
    ],
    ids=["intent", "agent", "own"],
)
def test_a_queue_of_events(ada, intent, asked):
    ada.assign_agent(intent.id)
    with asked(ada, intent) as queue:
        assert isinstance(queue, EventQueue)
        knock(ada, intent, lambda: queue.get(timeout=0.05))
        ada.update_state(intent.id, 1, {"a": 1})
        # Knocks, and on an agent's stream its open assignments.
        while (event := queue.get(timeout=PATIENCE)).type != "STATE_CHANGED":
            pass
        assert (event.type, event.intent_id, event.data["new_state"]) == ("STATE_CHANGED", intent.id, {"a": 1})
        assert queue.get(timeout=0.1) is None


def test_a_subscription_calls_back_and_stops(url, ada, intent):
    inbox, errors, calls = Inbox(), [], threading.Event()

    def call_back(event):
        calls.set()
        inbox.put(event)
        if event.type == "STATUS_CHANGED":
            raise ValueError("the callback's own fault")

    address = f"{url}/api/v1/intents/{intent.id}/subscribe"
    with SSESubscription(address, headers("agent.ada"), call_back, errors.append):
        knock(ada, intent, calls.is_set)
        ada.set_status(intent.id, 1, IntentStatus.ACTIVE)
        ada.update_state(intent.id, 2, {"a": 1})
        # A failing callback does not end the stream.
        assert inbox.next("STATE_CHANGED").data["new_state"] == {"a": 1}
    assert [str(error) for error in errors][:1] == ["the callback's own fault"]
    ada.update_state(intent.id, 3, {"a": 2})
    assert ada.get_intent(intent.id).version == 4
