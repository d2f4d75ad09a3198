# Agents' keys through the SDK (RFC-0018, OI-12). The SDK forwards the agent's signatures.

import uuid
from dataclasses import replace

import pytest
from ed25519 import Key, canonical
from kit import now, recent, refused
from openintent import NotFoundError, OpenIntentError
from openintent.exceptions import ConflictError


@pytest.fixture
def agent(connect):
    """A registered agent without a key: its client and its id."""
    name = f"agent.{uuid.uuid4()}"
    sdk = connect(name)
    sdk.register_agent(name)
    return sdk, name


def registered(sdk, name: str, key: Key):
    challenge = sdk.register_identity(name, key.public)
    return sdk.complete_identity_challenge(name, challenge.challenge, key.sign(challenge.challenge.encode()))


def rotation(old: Key, new: Key) -> str:
    """Returns the old key's signature of the rotation, as the SDK sends it."""
    return old.sign(canonical({"action": "rotate", "new_public_key": new.public, "old_public_key": old.public}))


def test_an_agent_proves_its_key(agent, ada):
    sdk, name = agent
    key = Key(name)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_identity(name)
    challenge = sdk.register_identity(name, key.public, key_expires_at="2030-01-01T00:00:00Z")
    assert len(challenge.challenge) == 43
    assert 290 < (challenge.challenge_expires_at - now()).total_seconds() < 310
    with refused(OpenIntentError, 403, "bad_signature"):
        sdk.complete_identity_challenge(name, challenge.challenge, Key("another").sign(b"x"))
    made = sdk.complete_identity_challenge(name, challenge.challenge, key.sign(challenge.challenge.encode()))
    assert (made.agent_id, made.public_key, made.key_algorithm) == (name, key.public, "Ed25519")
    assert made.did.startswith("did:key:z6Mk")
    assert recent(made.registered_at) and made.key_expires_at.year == 2030
    assert (made.previous_keys, made.metadata) == ([], {})
    assert ada.get_identity(name) == made


def test_an_agent_has_one_key_at_a_time(agent, ada):
    sdk, name = agent
    registered(sdk, name, Key(name))
    with refused(ConflictError, 409, "identity_exists"):
        sdk.register_identity(name, Key("next").public)
    with refused(OpenIntentError, 403, "may_not_act_as"):
        ada.register_identity(name, Key("stolen").public)


def test_a_signature_is_verified_over_the_canonical_form(agent, ada):
    sdk, name = agent
    key = Key(name)
    with refused(NotFoundError, 404, "not_found"):
        ada.verify_signature(name, {}, "x")
    made = registered(sdk, name, key)
    signature = key.sign(b'{"a":[1,null],"b":"\xc3\xa4"}')
    verdict = ada.verify_signature(name, {"b": "ä", "a": [1, None]}, signature)
    assert (verdict.valid, verdict.agent_id, verdict.did) == (True, name, made.did)
    assert recent(verdict.verified_at)
    assert not ada.verify_signature(name, {"b": "a", "a": [1, None]}, signature).valid
    assert not ada.verify_signature(name, {}, "no signature").valid


def test_a_key_is_rotated_on_the_old_ones_word(agent, ada):
    sdk, name = agent
    old, new = Key(name), Key(name + "2")
    made = registered(sdk, name, old)
    with refused(OpenIntentError, 403, "bad_signature"):
        sdk.rotate_key(name, new.public, old.public, rotation(new, old))
    turned = sdk.rotate_key(name, new.public, old.public, rotation(old, new))
    assert turned == replace(made, public_key=new.public, did=turned.did, previous_keys=[old.public])
    assert not ada.verify_signature(name, {}, old.sign(b"{}")).valid
    assert ada.verify_signature(name, {}, new.sign(b"{}")).valid
