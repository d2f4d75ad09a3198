# Messages through the SDK (RFC-0021 §2 to §4, OI-10.2 to OI-10.6): sending, replying, listing, reading and asking.

from datetime import datetime, timedelta, timezone

import pytest
from kit import CHANNEL, MESSAGE, TIME, answer_the_next_request, eventually, refused
from openintent import ConflictError, IntentStatus, NotFoundError, OpenIntentError


def ids(messages) -> list[str]:
    return [message["id"] for message in messages]


def test_a_message_is_what_was_sent(ada, channel):
    payload = {"question": "ä\U0001f600", "n": [1, 1.5, None, {}]}
    end = datetime.now(timezone(timedelta(hours=2))) + timedelta(hours=1)
    hints = {"priority": "high"}
    sent = ada.send_message(channel, "agent.ada", "agent.bob", "request", payload, hints, end.isoformat())
    assert TIME.fullmatch(sent["created_at"])
    assert sent == {
        "id": sent["id"],
        "channel_id": channel,
        "sender": "agent.ada",
        "to": "agent.bob",
        "message_type": "request",
        "correlation_id": None,
        "payload": payload,
        "metadata": hints,
        "status": "delivered",
        "created_at": sent["created_at"],
        # A time sent with an offset is returned with one (OI-3.6.4).
        "expires_at": end.astimezone(timezone.utc).isoformat(timespec="microseconds"),
        "read_at": None,
    }
    assert ada.get_message(channel, sent["id"]) == sent
    assert ada.list_messages(channel) == [sent]


@pytest.mark.parametrize(
    ("said", "comes_as"),
    [
        ({}, ("notify", None)),
        ({"message_type": "notify", "to": "agent.bob"}, ("notify", "agent.bob")),
        ({"message_type": "broadcast"}, ("broadcast", "*")),
        ({"message_type": "broadcast", "to": "*"}, ("broadcast", "*")),
        # Forms that clients of the reference server rely on (OI-2).
        ({"message_type": "request"}, ("request", "*")),
        ({"message_type": "message"}, ("notify", None)),
    ],
)
def test_each_type_has_its_address(ada, channel, said, comes_as):
    sent = ada.send_message(channel, "agent.ada", **said)
    assert (sent["message_type"], sent["to"]) == comes_as
    assert sent["payload"] == {}


def test_what_cannot_be_sent_is_refused(ada, channel, intent):
    with refused(OpenIntentError, 403, "may_not_act_as"):
        ada.send_message(channel, "agent.bob")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.send_message(channel, "agent.ada", message_type="banana")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.send_message(channel, "agent.ada", payload=["no", "object"])
    with refused(OpenIntentError, 422, "already_expired"):
        ada.send_message(channel, "agent.ada", expires_at="2020-01-01T00:00:00Z")
    with refused(OpenIntentError, 422, "no_recipient"):
        ada.send_message(channel, "agent.ada", to="role:nobody-has-it", message_type="request")
    for unknown in (CHANNEL, "nonsense"):
        with refused(NotFoundError, 404, "not_found"):
            ada.send_message(unknown, "agent.ada")
    assert ada.list_messages(channel) == []
    ada.set_status(intent.id, intent.version, IntentStatus.ABANDONED)
    with refused(ConflictError, 409, "channel_closed"):
        ada.send_message(channel, "agent.ada")


def test_a_request_is_answered(ada, bob, eve, channel):
    request = ada.send_message(channel, "agent.ada", "agent.bob", "request", {"q": 1})
    response = bob.reply_to(channel, request["id"], "agent.bob", {"a": 2}, {"sure": True})
    assert (response["message_type"], response["correlation_id"]) == ("response", request["id"])
    assert (response["sender"], response["to"]) == ("agent.bob", "agent.ada")
    assert (response["payload"], response["metadata"]) == ({"a": 2}, {"sure": True})
    assert ada.list_messages(channel) == [request, response]
    with refused(OpenIntentError, 403, "forbidden"):
        eve.reply_to(channel, request["id"], "agent.eve")
    with refused(OpenIntentError, 403, "may_not_act_as"):
        eve.reply_to(channel, request["id"], "agent.bob")
    with refused(NotFoundError, 404, "not_found"):
        bob.reply_to(channel, "nonsense", "agent.bob")


def test_what_is_no_request_may_be_answered_too(ada, bob, channel):
    notice = ada.send_message(channel, "agent.ada", "agent.bob")
    assert bob.reply_to(channel, notice["id"], "agent.bob")["correlation_id"] == notice["id"]


def test_messages_are_listed_oldest_first_after_a_cursor(ada, channel):
    sent = [ada.send_message(channel, "agent.ada", payload={"n": n}) for n in range(4)]
    assert ada.list_messages(channel) == sent
    assert ada.list_messages(channel, since=sent[1]["id"]) == sent[2:]
    assert ada.list_messages(channel, since=sent[3]["id"]) == []
    assert ada.list_messages(channel, since=sent[1]["created_at"]) == sent[2:]
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.list_messages(channel, since="nonsense")
    with refused(NotFoundError, 404, "not_found"):
        ada.list_messages(CHANNEL)


def test_an_evicted_cursor_makes_nobody_deaf(ada, intent):
    small = ada.create_channel(intent.id, "small", options={"max_messages": 2})["id"]
    sent = [ada.send_message(small, "agent.ada", payload={"n": n}) for n in range(4)]
    assert ada.list_messages(small) == sent[2:]
    with refused(NotFoundError, 404, "not_found"):
        ada.get_message(small, sent[0]["id"])
    assert ada.list_messages(small, since=sent[0]["id"]) == sent[2:]


def test_messages_are_listed_by_address(ada, bob, channel):
    to_bob, to_all, to_ada = (
        bob.send_message(channel, "agent.bob", "agent.bob"),
        bob.send_message(channel, "agent.bob", message_type="broadcast"),
        bob.send_message(channel, "agent.bob", "agent.ada"),
    )
    assert ids(ada.list_messages(channel, to="agent.ada")) == ids([to_all, to_ada])
    assert ids(ada.list_messages(channel, to="agent.bob")) == ids([to_bob, to_all])


def test_directed_mail_is_for_its_parties(ada, bob, eve, connect, channel):
    letter = bob.send_message(channel, "agent.bob", "agent.cy", payload={"secret": 1})
    notice = bob.send_message(channel, "agent.bob")
    # Ada manages the channel, because she created it.
    for sdk in (ada, bob, connect("agent.cy")):
        assert ids(sdk.list_messages(channel)) == ids([letter, notice])
    assert ids(eve.list_messages(channel)) == [notice["id"]]
    with refused(NotFoundError, 404, "not_found"):
        eve.get_message(channel, letter["id"])
    with refused(NotFoundError, 404, "not_found"):
        eve.mark_read(channel, letter["id"])


def test_an_explicit_channel_is_for_its_members(ada, bob, eve, intent):
    members = ["agent.ada", "agent.bob"]
    walled = ada.create_channel(intent.id, "walled", members, "explicit")["id"]
    sent = bob.send_message(walled, "agent.bob")
    assert ada.list_messages(walled) == [sent]
    for ask in (
        lambda: eve.send_message(walled, "agent.eve"),
        lambda: eve.list_messages(walled),
        lambda: eve.get_message(walled, sent["id"]),
        lambda: eve.mark_read(walled, sent["id"]),
        lambda: eve.reply_to(walled, sent["id"], "agent.eve"),
        lambda: eve.ask(walled, "agent.eve", "agent.ada", {}, timeout=1),
        lambda: ada.send_message(walled, "agent.ada", to="agent.eve"),
    ):
        with refused(OpenIntentError, 403, "not_a_member"):
            ask()


@pytest.mark.parametrize("unknown", [MESSAGE, "nonsense"])
def test_an_unknown_message_is_not_found(ada, channel, unknown):
    with refused(NotFoundError, 404, "not_found"):
        ada.get_message(channel, unknown)
    with refused(NotFoundError, 404, "not_found"):
        ada.mark_read(channel, unknown)


def test_a_message_is_found_only_on_its_own_channel(ada, intent, channel):
    sent = ada.send_message(channel, "agent.ada")
    other = ada.create_channel(intent.id, "other")["id"]
    with refused(NotFoundError, 404, "not_found"):
        ada.get_message(other, sent["id"])


def test_only_the_addressee_marks_a_message_read(ada, bob, channel):
    sent = ada.send_message(channel, "agent.ada", "agent.bob")
    with refused(OpenIntentError, 403, "forbidden"):
        ada.mark_read(channel, sent["id"])
    read = bob.mark_read(channel, sent["id"])
    assert read["status"] == "read" and TIME.fullmatch(read["read_at"])
    assert read == {**sent, "status": "read", "read_at": read["read_at"]}
    assert bob.mark_read(channel, sent["id"]) == read
    assert ada.get_message(channel, sent["id"]) == read


def test_a_message_expires(ada, bob, channel):
    end = datetime.now(timezone.utc) + timedelta(seconds=1)
    sent = ada.send_message(channel, "agent.ada", "agent.bob", "request", expires_at=end.isoformat())
    assert sent["status"] == "delivered"
    assert datetime.fromisoformat(sent["expires_at"]) == end
    eventually(lambda: ada.get_message(channel, sent["id"])["status"] == "expired", "the end of a message")
    assert sent["id"] not in ids(bob.list_messages(channel))
    with refused(ConflictError, 409, "message_expired"):
        bob.reply_to(channel, sent["id"], "agent.bob")


def test_a_role_is_asked(ada, bob, channel):
    bob.register_agent("agent.bob", role_id="billing")
    sent = ada.send_message(channel, "agent.ada", "role:billing", "request")
    assert sent["to"] == "role:billing"
    assert ids(bob.list_messages(channel)) == [sent["id"]]
    assert bob.reply_to(channel, sent["id"], "agent.bob")["to"] == "agent.ada"


def test_ask_waits_for_the_answer(ada, bob, channel):
    answering = answer_the_next_request(bob, channel, "agent.bob", {"a": 42})
    response = ada.ask(channel, "agent.ada", "agent.bob", {"q": "?"}, timeout=10)
    answering.join()
    request, answer = ada.list_messages(channel)
    assert (request["payload"], request["message_type"]) == ({"q": "?"}, "request")
    assert response == answer
    assert (response["payload"], response["correlation_id"]) == ({"a": 42}, request["id"])


def test_ask_gives_up(ada, channel):
    with pytest.raises(TimeoutError, match="No response received within 1s"):
        ada.ask(channel, "agent.ada", "agent.bob", {"q": "?"}, timeout=1)
    assert len(ada.list_messages(channel)) == 1


def test_ask_is_refused_where_sending_is(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.ask(CHANNEL, "agent.ada", "agent.bob", {}, timeout=1)
