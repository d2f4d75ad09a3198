# Checkpoints through the SDK (RFC-0019, OI-13): its own MerkleProof.verify() checks the proofs. The SDK has no
# method that creates a checkpoint; an operator creates them.

import json
import urllib.request

import pytest
from kit import INTENT, recent, refused
from openintent import EventType, NotFoundError, OpenIntentError

NOBODYS = "chk_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


@pytest.fixture
def take(url, operator):
    """Creates a checkpoint of an intent's log as the operator, and returns its id."""

    def ask(intent: str) -> str:
        body = json.dumps({"intent_id": intent}).encode()
        headers = {"X-API-Key": operator, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/api/v1/admin/checkpoints", body, headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 201
            return json.load(answer)["checkpoint_id"]

    return ask


def note(sdk, intent, times: int):
    for n in range(times):
        sdk.log_event(intent.id, EventType.COMMENT, {"n": n})


def test_checkpoints_are_listed_and_read(ada, eve, intent, take):
    note(ada, intent, 2)
    first = take(intent.id)
    note(ada, intent, 1)
    second = take(intent.id)
    listed = ada.list_checkpoints(intent_id=intent.id)
    assert [checkpoint.checkpoint_id for checkpoint in listed] == [second, first]
    assert ada.list_checkpoints(intent_id=intent.id, scope="server") == []
    checkpoint = eve.get_checkpoint(first)
    assert checkpoint == listed[1]
    assert (checkpoint.intent_id, checkpoint.scope, checkpoint.anchor) == (intent.id, "intent", None)
    assert (checkpoint.event_count, checkpoint.first_sequence, checkpoint.last_sequence) == (3, 1, 3)
    assert checkpoint.merkle_root.startswith("sha256:") and checkpoint.signed_by.startswith("did:key:z6Mk")
    assert len(checkpoint.signature) == 86 and recent(checkpoint.created_at)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_checkpoint(NOBODYS)
    with refused(NotFoundError, 404, "not_found"):
        ada.list_checkpoints(intent_id=INTENT)


@pytest.mark.parametrize("events", [1, 2, 3, 5, 8, 9])
def test_the_sdk_verifies_every_proof(ada, intent, take, events):
    note(ada, intent, events - 1)
    checkpoint = ada.get_checkpoint(take(intent.id))
    note(ada, intent, 1)
    log = sorted(ada.get_events(intent.id), key=lambda event: event.sequence)
    for index, event in enumerate(log[:-1]):
        proof = ada.get_merkle_proof(checkpoint.checkpoint_id, event.id)
        assert (proof.event_hash, proof.leaf_index) == (event.event_hash, index)
        assert proof.merkle_root == checkpoint.merkle_root
        assert proof.verify()
        proof.event_hash = log[-1].event_hash
        assert not proof.verify()
    with refused(NotFoundError, 404, "not_found"):
        ada.get_merkle_proof(checkpoint.checkpoint_id, log[-1].id)


def test_a_log_that_only_grew_is_consistent(ada, intent, take):
    first = take(intent.id)
    note(ada, intent, 3)
    second = take(intent.id)
    found = ada.verify_consistency(first, second)
    assert (found.from_checkpoint, found.to_checkpoint, found.consistent) == (first, second, True)
    [created] = [event for event in ada.get_events(intent.id) if event.sequence == 1]
    assert found.boundary_event == {"event_id": created.id, "sequence": 1, "event_hash": created.event_hash}
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.verify_consistency(second, first)
