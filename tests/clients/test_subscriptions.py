# Webhook subscriptions through the SDK (RFC-0006, OI-15.33), and a receiver that verifies deliveries with nothing
# but Python's own library (Standard Webhooks).

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import threading
import time
import urllib.request
from datetime import timedelta

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from kit import INTENT, eventually, now, recent, refused
from openintent import NotFoundError, OpenIntentError

URL = "https://hooks.example/in"
SUBSCRIPTION = "sub_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


def subscribe(sdk, flavour, **asked):
    """Subscribes with the arguments of each client: only the synchronous one takes an expiry."""
    if flavour == "sync" and "webhook_url" in asked:
        asked["expires_at"] = now() + timedelta(hours=24)
    return sdk.subscribe(**asked)


def test_a_subscription_is_made_listed_and_deleted(ada, flavour, intent):
    made = subscribe(ada, flavour, webhook_url=URL, event_types=["channel.message", "task.*"], intent_id=intent.id)
    assert (made.subscriber_id, made.intent_id, made.portfolio_id) == ("agent.ada", intent.id, None)
    assert (made.event_types, made.webhook_url, made.active) == (["channel.message", "task.*"], URL, True)
    assert recent(made.created_at)
    assert made.expires_at.tzinfo is None
    assert timedelta(hours=20) < made.expires_at - now() < timedelta(hours=40)
    assert ada.get_subscriptions(intent_id=intent.id) == [made]
    assert made in ada.get_subscriptions()
    assert ada.get_subscriptions(portfolio_id="some-portfolio") == []
    assert ada.unsubscribe(made.id) is None
    assert ada.get_subscriptions(intent_id=intent.id) == []


def test_what_cannot_be_subscribed_to_is_refused(ada, eve, flavour, intent):
    with refused(NotFoundError, 404, "not_found"):
        subscribe(ada, flavour, webhook_url=URL, intent_id=INTENT)
    with refused(NotFoundError, 404, "not_found"):
        subscribe(ada, flavour, webhook_url=URL, portfolio_id="some-portfolio")
    with refused(OpenIntentError, 422, "invalid_request"):
        subscribe(ada, flavour, webhook_url="http://169.254.169.254/latest")
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.get_subscriptions(intent_id="what")
    with refused(NotFoundError, 404, "not_found"):
        ada.unsubscribe(SUBSCRIPTION)
    made = subscribe(ada, flavour, webhook_url=URL, intent_id=intent.id)
    assert made not in eve.get_subscriptions()
    with refused(NotFoundError, 404, "not_found"):
        eve.unsubscribe(made.id)
    ada.unsubscribe(made.id)


def verify(secret: str, headers, body: bytes) -> None:
    """Verifies a delivery's signature and time."""
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 300
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert any(hmac.compare_digest(expected, given) for given in headers["webhook-signature"].split())


@contextlib.contextmanager
def receiver():
    """A receiver on this machine: its URL, and the received deliveries."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.headers, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", got
        server.shutdown()


def secret_of(url: str, subscription: str) -> str:
    """Returns a fresh secret, because the SDK discards the one from the creation of a subscription."""
    rotate = urllib.request.Request(
        f"{url}/api/v1/subscriptions/{subscription}/rotate", method="POST", headers={"X-API-Key": "the-key-of-ada"}
    )
    with urllib.request.urlopen(rotate, timeout=10) as answer:
        return json.load(answer)["secret"]


def test_a_receiver_verifies_what_it_gets(ada, bob, url, flavour, intent, channel):
    with receiver() as (hook, got):
        made = subscribe(ada, flavour, webhook_url=hook, event_types=["channel_message"], intent_id=intent.id)
        secret = secret_of(url, made.id)
        sent = bob.send_message(channel, "agent.bob", payload={"figure": 42}, to="agent.ada")
        eventually(lambda: got, "the delivery")
        [(headers, body)] = got
        verify(secret, headers, body)
        with pytest.raises(AssertionError):
            verify(secret, headers, body.replace(b"42", b"43"))
        told = json.loads(body)
        assert (told["type"], headers["webhook-id"]) == ("channel_message", sent["id"])
        assert (told["data"]["payload"], told["data"]["sender"]) == ({"figure": 42}, "agent.bob")
        ada.unsubscribe(made.id)


def test_the_sdk_of_cloudevents_reads_a_delivery(ada, url, intent, channel):
    with receiver() as (to, got):
        asked = {"webhook_url": to, "intent_id": intent.id, "event_types": ["channel_message"], "format": "cloudevents"}
        subscribing = urllib.request.Request(
            f"{url}/api/v1/subscriptions",
            method="POST",
            data=json.dumps(asked).encode(),
            headers={"X-API-Key": "the-key-of-ada", "content-type": "application/json"},
        )
        with urllib.request.urlopen(subscribing, timeout=10) as answer:
            made = json.load(answer)
        sent = ada.send_message(channel, "agent.ada", payload={"n": 1})
        eventually(lambda: got, "the delivery")
        headers, body = got[0]
        event = from_http_event(HTTPMessage(dict(headers.items()), body))
        ada.unsubscribe(made["id"])
    assert (event.get_specversion(), event.get_type(), event.get_id()) == ("1.0", "channel_message", sent["id"])
    assert event.get_source().endswith(f"/api/v1/intents/{intent.id}")
    assert recent(event.get_time().replace(tzinfo=None))
    assert event.get_data()["payload"] == {"n": 1}
