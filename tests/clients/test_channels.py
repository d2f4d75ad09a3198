# Channels through the SDK (RFC-0021 §1, OI-10.1): creating, listing and closing them, and the necessary rights.

import pytest
from kit import CHANNEL, INTENT, TIME, refused
from openintent import AccessPolicy, ConflictError, IntentStatus, NotFoundError, OpenIntentError


def test_a_channel_is_what_was_asked_for(ada, intent):
    options = {"audit": True, "ttl_seconds": 3600, "max_messages": 100, "colour": "unknown to the server"}
    members = ["agent.ada", "agent.bob"]
    made = ada.create_channel(intent.id, "data", members, "explicit", task_id="task-123", options=options)
    assert TIME.fullmatch(made["created_at"])
    assert made == {
        "id": made["id"],
        "intent_id": intent.id,
        "name": "data",
        "created_by": "agent.ada",
        "members": members,
        "member_policy": "explicit",
        "task_id": "task-123",
        "options": options,
        "status": "open",
        "created_at": made["created_at"],
        "closed_at": None,
        "message_count": 0,
        "last_message_at": None,
    }
    assert ada.get_channel(made["id"]) == made


def test_a_channel_is_the_intents_unless_said_otherwise(ada, intent):
    made = ada.create_channel(intent.id, "open")
    told = [made[member] for member in ("members", "member_policy", "task_id", "options")]
    assert told == [[], "intent", None, None]


def test_a_channel_counts_its_messages(ada, channel):
    sent = [ada.send_message(channel, "agent.ada") for _ in range(2)]
    found = ada.get_channel(channel)
    assert (found["message_count"], found["last_message_at"]) == (2, sent[1]["created_at"])


@pytest.mark.parametrize("name", ["talk", "release-notes", "please"])
def test_a_name_is_taken_while_its_channel_is_open(ada, intent, name):
    first = ada.create_channel(intent.id, name)
    # A name with "lease" in it does not make the error a lease conflict (OI-3.5.3): the error's exact type is
    # asserted.
    with refused(ConflictError, 409, "duplicate_name") as caught:
        ada.create_channel(intent.id, name)
    assert caught.value.current_version is None
    ada.close_channel(first["id"])
    assert ada.create_channel(intent.id, name)["id"] != first["id"]


def test_what_is_no_channel_is_refused(ada, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.create_channel(INTENT, "talk")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_channel(intent.id, "")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_channel(intent.id, "talk", member_policy="banana")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_channel(intent.id, "talk", members="agent.bob")
    assert ada.list_channels(intent.id) == []


def test_a_resolved_intent_has_no_new_channels_and_no_open_ones(ada, intent):
    first, second = (ada.create_channel(intent.id, name) for name in ("first", "second"))
    ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)
    with refused(ConflictError, 409, "intent_resolved"):
        ada.create_channel(intent.id, "third")
    listed = ada.list_channels(intent.id)
    assert {channel["id"] for channel in listed} == {first["id"], second["id"]}
    for channel in listed:
        assert channel["status"] == "closed" and TIME.fullmatch(channel["closed_at"])
    with refused(ConflictError, 409, "channel_closed"):
        ada.send_message(first["id"], "agent.ada")


def test_channels_are_listed_bare(ada, intent, channel):
    other = ada.create_channel(intent.id, "other")
    listed = ada.list_channels(intent.id)
    assert sorted(one["id"] for one in listed) == sorted([channel, other["id"]])
    assert other in listed
    with refused(NotFoundError, 404, "not_found"):
        ada.list_channels(INTENT)


@pytest.mark.parametrize("unknown", [CHANNEL, "nonsense"])
def test_an_unknown_channel_is_not_found(ada, unknown):
    with refused(NotFoundError, 404, "not_found"):
        ada.get_channel(unknown)


def test_a_channel_is_closed_by_those_who_manage_it(ada, eve, channel, intent):
    # The SDK ignores the answer, which is a refusal here.
    assert eve.close_channel(channel) is None
    assert ada.get_channel(channel)["status"] == "open"
    assert ada.close_channel(channel) is None
    with refused(NotFoundError, 404, "not_found"):
        ada.get_channel(channel)
    assert ada.list_channels(intent.id) == []
    # For a closed or unknown channel the SDK reports no error either.
    assert ada.close_channel(channel) is None
    assert ada.close_channel(CHANNEL) is None


def test_the_channels_of_a_closed_intent_are_not_there_for_others(ada, eve, intent, channel):
    ada.set_acl(intent.id, AccessPolicy.CLOSED)
    with refused(NotFoundError, 404, "not_found"):
        eve.get_channel(channel)
    with refused(NotFoundError, 404, "not_found"):
        eve.send_message(channel, "agent.eve")
