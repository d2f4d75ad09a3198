# Messages, questions and answers of our own Python client, in both flavours.

import copy
import pickle
import threading
import time
from datetime import datetime, timedelta, timezone

import httpx
import pytest
from both import client
from entente import (
    ConflictError,
    ConnectionLostError,
    InvalidError,
    MessageTimeoutError,
    NotFoundError,
    UnavailableError,
    operations,
)


def meanwhile(action):
    """Runs an action in another thread."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def test_an_agent_asks_and_another_one_answers(ada, bob, talk):
    def answering():
        page = bob.channel(talk.id).read(to="agent.bob", wait=10)
        request = page.value[0]
        assert request.payload == {"question": "Which schema?"}
        bob.channel(talk.id).reply(request, {"answer": "v2.3"})

    thread = meanwhile(answering)
    response = ada.ask(talk.id, "agent.ada", "agent.bob", {"question": "Which schema?"}, timeout=10)
    thread.join()
    assert response.payload["answer"] == "v2.3"
    assert response.sender == "agent.bob"


def test_nobody_answers_in_time(ada, talk):
    begun = time.monotonic()
    with pytest.raises(MessageTimeoutError) as told:
        talk.ask("agent.bob", {"question": "?"}, timeout=1)
    assert time.monotonic() - begun < 20
    assert told.value.request.id in str(told.value)
    assert ada.ask_all(talk.id, "agent.ada", "agent.bob", {"question": "?"}, timeout=1) == []


def test_all_answers_in_time(ada, bob, join, talk):
    eve = join("agent.eve")

    def answering(client, name):
        request = client.channel(talk.id).read(wait=10).value[0]
        client.reply_to(talk.id, request.id, name, {"from": name})

    threads = [meanwhile(lambda: answering(bob, "agent.bob")), meanwhile(lambda: answering(eve, "agent.eve"))]
    found = ada.ask_all(talk.id, "agent.ada", "*", {"question": "?"}, timeout=10, expect=2)
    for thread in threads:
        thread.join()
    assert {one.payload["from"] for one in found} == {"agent.bob", "agent.eve"}


def test_the_methods_of_the_rfc_have_its_signatures(ada, intent):
    made = ada.create_channel(intent.id, "explicit", ["agent.ada", "agent.bob"], "explicit", {"ttl_seconds": 60})
    assert ada.get_channel(made.id).members == ["agent.ada", "agent.bob"]
    assert [one.name for one in ada.list_channels(intent.id)] == ["explicit"]
    message = ada.send_message(made.id, "agent.ada", "agent.bob", "notify", {"n": 1}, datetime.now(timezone.utc) + timedelta(days=1))
    assert ada.get_message(made.id, message.id).expires_at == message.expires_at is not None
    assert [one.id for one in ada.list_messages(made.id, None, "agent.bob")] == [message.id]
    assert ada.list_messages(made.id, message.id) == []
    assert ada.close_channel(made.id).status == "closed"


def test_a_message_is_marked_read_by_its_recipient(bob, talk):
    said = talk.notify("agent.bob", {"n": 1})
    assert bob.mark_read(talk.id, said.id).status == "read"


def test_a_channel_is_opened_once_under_its_name(ada, bob, intent):
    found = ada.channels.open("once", intent_id=intent.id)
    assert bob.channels.open("once", intent_id=intent.id).id == found.id


def test_a_lost_answer_to_a_send_leaves_one_message(join, proxy, talk):
    ada = join("agent.ada", proxy.url)
    proxy.lose_answers("POST /api/v1/channels/", 3)
    said = ada.send_message(talk.id, "agent.ada", payload={"n": 1})
    assert proxy.lost == 3
    assert [one.id for one in talk.messages()] == [said.id]


def test_a_lost_answer_to_a_question_asks_once(join, proxy, bob, talk):
    ada = join("agent.ada", proxy.url)
    proxy.lose_answers("POST /api/v1/channels/", 1)
    thread = meanwhile(lambda: bob.reply_to(talk.id, bob.channel(talk.id).read(wait=10).value[0].id, "agent.bob", {"ok": True}))
    assert ada.ask(talk.id, "agent.ada", "agent.bob", {"question": "?"}, timeout=10).payload == {"ok": True}
    thread.join()
    assert [one.message_type for one in talk.messages()] == ["request", "response"]


def test_what_passes_is_repeated_and_what_does_not_is_told(join, proxy, talk):
    ada = join("agent.ada", proxy.url)
    for status in (429, 502, 503):
        proxy.answer("POST /api/v1/channels/", status, 2)
        ada.send_message(talk.id, "agent.ada", payload={"status": status})
    assert [one.payload["status"] for one in talk.messages()] == [429, 502, 503]
    # A claim has no idempotency key, and another program of the agent may have made one.
    task = operations.claim_task("task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")
    proxy.answer("POST /api/v1/tasks/", 503, 1)
    with pytest.raises(UnavailableError) as away:
        ada.call(task)
    assert (away.value.status, away.value.retry_after) == (503, 0)
    proxy.lose_answers("POST /api/v1/tasks/", 1)
    with pytest.raises(ConnectionLostError) as lost:
        ada.call(task)
    assert lost.value.may_have_happened


def test_no_id_leaves_its_place_in_a_path(ada):
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="is no id"):
            ada.get_channel(name)
    with pytest.raises(NotFoundError):
        ada.get_channel("../intents?x#y")


def test_a_server_that_stays_away_is_told_after_the_clients_patience(join, proxy):
    ada = join("agent.ada", proxy.url, patience=0.5)
    proxy.close()
    begun = time.monotonic()
    with pytest.raises(ConnectionLostError) as away:
        ada.whoami()
    assert 0.5 <= time.monotonic() - begun < 20
    assert not away.value.may_have_happened
    with pytest.raises(ConnectionLostError):
        ada.stream().__enter__()


def test_a_key_with_a_rate_is_slowed_and_not_refused(server, flavour, loop):
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}) as admin:
        made = admin.post("/principals/agent.ada/keys", json={"label": "slow", "rate_per_second": 5}).raise_for_status().json()
    slow = client(flavour, loop, server.url, made["key"])
    begun = time.monotonic()
    for _ in range(12):
        assert slow.whoami().agent_id == "agent.ada"
    assert time.monotonic() - begun > 0.5
    slow.close()


def test_errors_say_what_is_wrong_and_what_to_do(ada, join, talk):
    with pytest.raises(NotFoundError) as missing:
        ada.get_channel("chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F")
    assert (missing.value.status, missing.value.code) == (404, "not_found")
    assert "Check the id" in str(missing.value)
    with pytest.raises(InvalidError) as invalid:
        ada.send_message(talk.id, "agent.ada", message_type="shout")
    assert invalid.value.errors or "shout" in invalid.value.message
    with pytest.raises(ConflictError) as twice:
        ada.create_channel(ada.get_channel(talk.id).intent_id, "talk")
    assert twice.value.code == "duplicate_name"


def test_an_answer_can_be_copied_and_shows_what_it_has(ada):
    found = ada.whoami()
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found and other.key.id == found.key.id
    assert "agent.ada" in repr(found) and "kind" in found
    with pytest.raises(AttributeError, match="has no member 'agentid'; it has"):
        found.agentid  # noqa: B018


def test_any_operation_can_be_called_and_unknown_members_pass(ada):
    found = ada.call(operations.get_server_config())
    assert found == {name: found[name] for name in found}
    assert ada.call(operations.whoami()).agent_id == "agent.ada"
