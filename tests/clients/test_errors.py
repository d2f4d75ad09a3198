# The SDK's errors for general refusals: keys, unknown paths, sizes; and closing its clients.

import pytest
from conftest import AGENTS
from kit import open_sdk, refused
from openintent import NotFoundError, OpenIntentClient, OpenIntentError


@pytest.mark.parametrize("key", ["no-key-of-anybody", "ent_0000000000_nonsense"])
def test_a_wrong_key_is_an_error_with_its_status(connect, key):
    stranger = connect("agent.ada", key=key)
    with refused(OpenIntentError, 401, "unauthenticated") as caught:
        stranger.list_intents()
    # The SDK has a separate error for this but never raises it (OI-3.5.1): `refused` asserts the exact type.
    assert caught.value.response["detail"] == "Invalid or missing API key"


def test_a_key_speaks_for_its_own_agent_only(connect):
    impostor = connect("agent.bob", key=AGENTS["agent.ada"])
    with refused(OpenIntentError, 403, "may_not_act_as"):
        impostor.list_intents()
    with refused(OpenIntentError, 403, "may_not_act_as"):
        impostor.create_intent("in another's name", "")


def test_a_key_for_any_agent_speaks_for_all(connect):
    one = connect("agent.anybody")
    assert one.create_intent("made for somebody", "").created_by == "agent.anybody"


def test_what_is_not_served_is_not_found(ada):
    # The id makes the path one that the server does not know.
    with refused(NotFoundError, 404, "not_found") as caught:
        ada.get_intent("a/b/c")
    assert caught.value.message == "Resource not found"


def test_what_is_too_large_is_refused(ada, channel):
    with refused(OpenIntentError, 413, "too_large"):
        ada.send_message(channel, "agent.ada", payload={"text": "x" * 300_000})
    with refused(OpenIntentError, 413, "too_large"):
        ada.send_message(channel, "agent.ada", payload={"text": "x" * 3_000_000})
    # The connection is still usable.
    assert ada.list_messages(channel) == []


def test_nul_is_refused(ada):
    with refused(OpenIntentError, 422, "nul_character"):
        ada.create_intent("with a \0 in it", "")


def test_a_refusal_names_no_key(connect, intent):
    impostor = connect("agent.bob", key=AGENTS["agent.ada"])
    with refused(OpenIntentError, 403, "may_not_act_as") as caught:
        impostor.get_intent(intent.id)
    assert AGENTS["agent.ada"] not in str(caught.value.response)


def test_a_client_is_closed_by_its_own_means(url):
    with OpenIntentClient(url, AGENTS["agent.ada"], "agent.ada") as client:
        assert client.create_intent("made in a with block").version == 1
    with pytest.raises(RuntimeError, match="closed"):
        client.list_intents()


def test_an_asynchronous_client_is_closed_by_its_own_means(url):
    sdk = open_sdk("async", url, AGENTS["agent.ada"], "agent.ada")
    sdk.close()
    with pytest.raises(RuntimeError, match="closed"):
        sdk.list_intents()
