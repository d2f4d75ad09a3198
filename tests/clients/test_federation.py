# Federation through the SDK (RFC-0022, RFC-0023): its six methods on both clients, and its own code for envelopes,
# signatures and DIDs on the other side: a peer built only from the SDK signs messages that this server accepts, and
# verifies the server's own.

import http.server
import json
import threading
import urllib.parse
from datetime import datetime, timezone

import httpx
import pytest
from conftest import AGENTS, OPERATORS, serving
from kit import INTENT, Sdk, eventually, open_sdk, refused
from openintent import EventType, IntentStatus, NotFoundError, OpenIntentError
from openintent.federation.models import (
    AgentVisibility,
    CallbackEventType,
    DispatchStatus,
    FederatedAgent,
    FederationCallback,
    FederationEnvelope,
    FederationManifest,
    PeerInfo,
    TrustPolicy,
)
from openintent.federation.security import (
    ServerIdentity,
    resolve_did_web,
    sign_envelope,
    verify_envelope_signature,
)

SITE = "https://entente.example"
PEER_DID = "did:web:peer.example"
NOBODYS = "disp_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


class Peer:
    """A server built only from the SDK: it accepts and records all requests."""

    def __init__(self):
        self.got = []
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                peer.got.append((self.path, body))
                said = {"dispatch_id": body["dispatch_id"], "accepted": True, "local_intent_id": "fed-1", "message": "ok"}
                text = json.dumps(said).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.identity = ServerIdentity.generate(self.url)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def of(self, path: str, dispatch_id: str) -> list[dict]:
        return [body for where, body in self.got if where == path and body["dispatch_id"] == dispatch_id]

    def signs(self, envelope: dict) -> dict:
        return envelope | {"signature": sign_envelope(self.identity, envelope)}

    def end(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def peer():
    peer = Peer()
    yield peer
    peer.end()


@pytest.fixture(scope="module")
def federated(peer, tmp_path_factory):
    """A server that knows the peer; its URL, and the peer's API key there."""
    listed = {
        "url": peer.url,
        "did": PEER_DID,
        "public_keys": [peer.identity.public_key_b64],
        "receive_from": True,
        "dispatch_to": True,
        "share": ["description", "state"],
    }
    file = tmp_path_factory.mktemp("federation") / "federation.json"
    file.write_text(json.dumps({"peers": [listed], "export": ["agent.ada"]}))
    settings = {"ENTENTE_PUBLIC_URL": SITE, "ENTENTE_FEDERATION_FILE": str(file), "ENTENTE_WEBHOOK_ALLOW": "127.0.0.1"}
    with serving(**settings) as url:
        admin = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": OPERATORS[url]})
        admin.post("/principals", json={"id": PEER_DID, "kind": "service"}).raise_for_status()
        made = admin.post(f"/principals/{urllib.parse.quote(PEER_DID, safe='')}/keys", json={})
        made.raise_for_status()
        yield url, made.json()["key"]


@pytest.fixture
def join(federated, flavour):
    """Opens clients for the federated server."""
    opened = []

    def open_one(agent: str, key: str = "") -> Sdk:
        opened.append(open_sdk(flavour, federated[0], key or AGENTS[agent], agent))
        return opened[-1]

    yield open_one
    for sdk in opened:
        sdk.end()


@pytest.fixture
def ada(join):
    sdk = join("agent.ada")
    sdk.register_agent("agent.ada", capabilities=["translate"])
    return sdk


@pytest.fixture
def theirs(join, federated):
    """The SDK's client with the peer's own key."""
    return join(PEER_DID, federated[1])


def test_a_server_says_who_it_is(join, flavour, url, federated):
    manifest = FederationManifest.from_dict(join("agent.ada").federation_discover())
    assert (manifest.server_url, manifest.trust_policy) == (SITE, TrustPolicy.ALLOWLIST)
    assert manifest.visibility_default == AgentVisibility.PRIVATE
    # The DID is the one that the SDK derives from the URL, and its document is at the path where the SDK looks.
    assert manifest.server_did == ServerIdentity(SITE).did
    assert resolve_did_web(manifest.server_did) == f"{SITE}/.well-known/did.json"
    document = httpx.get(f"{federated[0]}/.well-known/did.json").raise_for_status().json()
    [method] = document["verificationMethod"]
    expected = ServerIdentity(SITE).did_document()
    assert (document["id"], method["id"]) == (expected["id"], expected["verificationMethod"][0]["id"])
    assert method["type"] == expected["verificationMethod"][0]["type"]
    assert method["publicKeyBase64"] == manifest.public_key
    # A server without peers publishes nothing.
    alone = open_sdk(flavour, url, AGENTS["agent.ada"], "agent.ada")
    with refused(NotFoundError, 404, "not_found"):
        alone.federation_discover()
    alone.end()


def test_how_it_stands(ada, join, peer):
    status = ada.federation_status()
    assert (status.enabled, status.server_did, status.peer_count) == (True, ServerIdentity(SITE).did, 1)
    assert status.trust_policy == TrustPolicy.ALLOWLIST
    before = (status.active_dispatches, status.total_dispatches)
    ada.federation_dispatch(ada.create_intent("Translate", "").id, peer.url)
    after = ada.federation_status()
    assert (after.active_dispatches, after.total_dispatches) == (before[0] + 1, before[1] + 1)
    with refused(OpenIntentError, 401, "unauthenticated"):
        join("agent.ada", "wrong").federation_status()


def test_how_it_stands_names_the_peers(federated, peer):
    answer = httpx.get(f"{federated[0]}/api/v1/federation/status", headers={"X-API-Key": AGENTS["agent.bob"]})
    [known] = [PeerInfo.from_dict(one) for one in answer.json()["peers"]]
    assert (known.server_url, known.server_did) == (peer.url, PEER_DID)
    assert known.public_key == peer.identity.public_key_b64


def test_agents_are_exported(ada, theirs, peer):
    for listed in (ada.list_federated_agents(), ada.list_federated_agents(peer.url), theirs.list_federated_agents()):
        [agent] = [FederatedAgent.from_dict(one) for one in listed]
        assert (agent.agent_id, agent.capabilities, agent.status) == ("agent.ada", ["translate"], "active")
        assert (agent.server_url, agent.visibility) == (SITE, AgentVisibility.PUBLIC)
    with refused(OpenIntentError, 403, "forbidden"):
        ada.list_federated_agents("https://elsewhere.example")


def test_an_intent_is_dispatched_and_the_sdk_believes_the_signature(ada, peer):
    # Numbers and characters that Python serialises differently.
    state = {"half": 0.5, "one": 1.0, "tiny": 1e-7, "n": 3, "big": 123456789012345.6, "ß€": "😀\x7f\n\"\\/"}
    intent = ada.create_intent("Übersetzen", "alles €", initial_state=state, constraints={"secret": True})
    sent = ada.federation_dispatch(
        intent.id,
        peer.url,
        agent_id="agent.theirs",
        delegation_scope={"permissions": ["state.patch"], "max_delegation_depth": 1},
        federation_policy={"governance": {}, "budget": {"cost_ceiling_usd": 1.5}, "observability": {}},
        trace_context={"trace_id": "0af7651916cd43dd8448eb211c80319c"},
    )
    assert (sent.status, sent.target_server, sent.remote_intent_id) == (DispatchStatus.PENDING, peer.url, None)
    [body] = eventually(lambda: peer.of("/api/v1/federation/receive", sent.dispatch_id), "the envelope")
    manifest = FederationManifest.from_dict(ada.federation_discover())
    assert verify_envelope_signature(manifest.public_key, body, body["signature"])
    assert not verify_envelope_signature(manifest.public_key, body | {"agent_id": "agent.x"}, body["signature"])
    envelope = FederationEnvelope.from_dict(body)
    assert (envelope.source_server, envelope.target_server, envelope.intent_id) == (SITE, peer.url, intent.id)
    assert (envelope.intent_title, envelope.intent_description) == ("Übersetzen", "alles €")
    # Parts that the operator does not share are absent.
    assert (envelope.intent_state, envelope.intent_constraints) == (state, {})
    assert (envelope.agent_id, envelope.federation_policy.budget) == ("agent.theirs", {"cost_ceiling_usd": 1.5})
    assert envelope.to_dict() == body, "the SDK writes it as we do"
    assert abs((datetime.now(timezone.utc) - datetime.fromisoformat(envelope.created_at)).total_seconds()) < 60

    def taken():
        return ada.get_events(intent.id, event_type=EventType.FEDERATION_CALLBACK)

    [event] = eventually(taken, "the peer's answer")
    assert (event.payload["event_type"], event.payload["remote_intent_id"]) == ("accepted", "fed-1")


def test_nothing_is_dispatched_to_strangers(ada, peer):
    with refused(NotFoundError, 404, "not_found"):
        ada.federation_dispatch(INTENT, peer.url)
    intent = ada.create_intent("Translate", "")
    with refused(OpenIntentError, 403, "forbidden"):
        ada.federation_dispatch(intent.id, "https://elsewhere.example")
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.federation_dispatch(intent.id, peer.url, callback_url="https://elsewhere.example/cb")


def test_an_intent_is_received_from_the_sdks_client(ada, theirs, peer, flavour):
    asked = {
        "dispatch_id": f"d-client-{flavour}",
        "source_server": peer.url,
        "intent_id": "theirs-1",
        "intent_title": "Translate",
        "intent_description": "all of it",
        "intent_state": {"half": 0.5},
        "agent_id": "agent.ada",
    }
    taken = theirs.federation_receive(**asked)
    assert taken.accepted and taken.dispatch_id == asked["dispatch_id"]
    copy = ada.get_intent(taken.local_intent_id)
    assert (copy.title, copy.description, copy.created_by) == ("Translate", "all of it", PEER_DID)
    assert copy.state.to_dict() == {"half": 0.5}
    assert theirs.federation_receive(**asked) == taken
    types = {event.event_type for event in ada.get_events(copy.id)}
    assert types == {EventType.INTENT_CREATED, EventType.FEDERATION_RECEIVED, EventType.AGENT_ASSIGNED}
    # Work that cannot be done here is declined with a reason.
    no = theirs.federation_receive(**asked | {"dispatch_id": f"d-no-{flavour}", "agent_id": "agent.hidden"})
    assert (no.accepted, no.local_intent_id) == (False, None) and "no such agent" in no.message
    # Requests in the peer's name require its signature.
    with refused(OpenIntentError, 403, "signature_required"):
        ada.federation_receive(**asked | {"dispatch_id": f"d-forged-{flavour}"})


def test_what_the_sdk_signs_is_taken_without_a_key(federated, peer, flavour):
    envelope = FederationEnvelope(
        dispatch_id=f"d-signed-{flavour}",
        source_server=peer.url,
        target_server=SITE,
        intent_id="theirs-2",
        intent_title="Übersetzen 😀",
        intent_state={"one": 1.0, "tiny": 1e-7, "text": "ß\x7f"},
        created_at=datetime.now(timezone.utc).isoformat(),
    ).to_dict()
    receive = f"{federated[0]}/api/v1/federation/receive"
    answer = httpx.post(receive, json=peer.signs(envelope))
    assert answer.status_code == 200 and answer.json()["accepted"], answer.text
    assert httpx.post(receive, json=peer.signs(envelope)).json() == answer.json()
    for body, code in [
        (envelope, "signature_required"),
        (peer.signs(envelope) | {"intent_title": "Transfer"}, "bad_signature"),
        (envelope | {"signature": sign_envelope(ServerIdentity.generate(peer.url), envelope)}, "bad_signature"),
    ]:
        said = httpx.post(receive, json=body)
        assert (said.status_code, said.json()["code"]) == (403, code)


def test_a_peer_hears_how_it_goes_on(ada, federated, peer, flavour):
    envelope = FederationEnvelope(
        dispatch_id=f"d-told-{flavour}",
        source_server=peer.url,
        target_server=SITE,
        intent_id="theirs-3",
        intent_title="Translate",
        agent_id="agent.ada",
        callback_url=f"{peer.url}/callbacks",
        created_at=datetime.now(timezone.utc).isoformat(),
    ).to_dict()
    taken = httpx.post(f"{federated[0]}/api/v1/federation/receive", json=peer.signs(envelope)).json()
    intent = ada.get_intent(taken["local_intent_id"])
    intent = ada.update_state(intent.id, intent.version, {"pages": 3, "share": 0.25})
    ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)

    def told():
        bodies = peer.of("/callbacks", envelope["dispatch_id"])
        return bodies if len(bodies) == 2 else None

    bodies = eventually(told, "both callbacks")
    key = FederationManifest.from_dict(ada.federation_discover()).public_key
    assert all(verify_envelope_signature(key, body, body["signature"]) for body in bodies)
    delta, end = [FederationCallback.from_dict(body) for body in bodies]
    assert (delta.event_type, delta.state_delta) == (CallbackEventType.STATE_DELTA, {"pages": 3, "share": 0.25})
    assert (end.event_type, end.state_delta) == (CallbackEventType.COMPLETED, {"status": "completed"})


def test_callbacks_are_sent_with_the_sdks_client(ada, theirs, federated, peer):
    intent = ada.create_intent("Translate", "")
    sent = ada.federation_dispatch(intent.id, peer.url)
    [body] = eventually(lambda: peer.of("/api/v1/federation/receive", sent.dispatch_id), "the envelope")
    assert body["callback_url"] == f"{SITE}/api/v1/federation/callbacks"
    # The site's host name does not resolve to this machine.
    place = body["callback_url"].replace(SITE, federated[0])
    attestation = {"dispatch_id": sent.dispatch_id, "governance_compliant": True, "usage": {"tokens": 7}}
    heard = theirs.send_federation_callback(place, sent.dispatch_id, "state_delta", {"pages": 3})
    assert heard == {"received": True, "dispatch_id": sent.dispatch_id, "event_type": "state_delta"}
    assert theirs.send_federation_callback(place, sent.dispatch_id, "state_delta", {"pages": 3}) == heard
    theirs.send_federation_callback(place, sent.dispatch_id, "completed", attestation=attestation)
    [done] = ada.get_events(intent.id, event_type=EventType.FEDERATION_COMPLETED)
    assert (done.actor, done.payload["attestation"]) == (PEER_DID, attestation)
    told = [event.payload["state_delta"] for event in ada.get_events(intent.id) if event.payload.get("state_delta")]
    assert told == [{"pages": 3}]
    with refused(NotFoundError, 404, "not_found"):
        theirs.send_federation_callback(place, NOBODYS, "completed")
    with refused(OpenIntentError, 403, "signature_required"):
        ada.send_federation_callback(place, sent.dispatch_id, "failed")
