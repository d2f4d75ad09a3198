# Triggers through the SDK (RFC-0017): creating, reading, listing, changing, firing and deleting them; and the intents
# that they create.

import base64
import hashlib
import hmac
import json
import time
import urllib.request

from kit import eventually, recent, refused
from openintent import ConflictError, NotFoundError, OpenIntentError
from openintent.models import DeduplicationMode, IntentStatus, TriggerType

TRIGGER = "trg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


def test_a_trigger_is_what_was_asked_for(ada):
    condition = {"cron": "0 9 * * MON-FRI", "timezone": "America/New_York", "ends_at": "2030-01-01T00:00:00"}
    template = {"type": "compliance.review", "title": "Review", "context": {"scope": "all"}, "tags": ["auto"]}
    made = ada.create_trigger(
        "daily",
        "schedule",
        condition=condition,
        intent_template=template,
        deduplication="skip",
        namespace="compliance",
    )
    assert (made.name, made.type, made.enabled) == ("daily", TriggerType.SCHEDULE, True)
    assert (made.condition.cron, made.condition.timezone) == ("0 9 * * MON-FRI", "America/New_York")
    assert made.condition.ends_at.isoformat() == "2030-01-01T00:00:00"
    assert (made.intent_template.type, made.intent_template.title) == ("compliance.review", "Review")
    assert (made.intent_template.context, made.intent_template.tags) == ({"scope": "all"}, ["auto"])
    assert (made.deduplication, made.namespace) == (DeduplicationMode.SKIP, "compliance")
    assert (made.fire_count, made.version, made.last_fired_at) == (0, 1, None)
    assert recent(made.created_at) and recent(made.updated_at)
    assert ada.get_trigger(made.trigger_id) == made


def test_a_trigger_with_nothing_but_a_name_is_made_too(ada):
    for kind in TriggerType:
        made = ada.create_trigger("bare", kind.value)
        assert (made.type, made.condition, made.intent_template) == (kind, None, None)


def test_those_asked_for_are_listed(ada, bob):
    here = f"listed.{time.monotonic_ns()}"
    mine = [ada.create_trigger(name, kind, namespace=here) for name, kind in (("a", "event"), ("b", "webhook"))]
    assert [one.trigger_id for one in ada.list_triggers(namespace=here)] == [one.trigger_id for one in mine]
    found = ada.list_triggers(namespace=here, trigger_type="webhook")
    assert [one.trigger_id for one in found] == [mine[1].trigger_id]
    assert ada.list_triggers(namespace="elsewhere") == []
    assert mine[0].trigger_id not in [one.trigger_id for one in bob.list_triggers()]
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.list_triggers(trigger_type="cron")


def test_a_change_needs_the_version_that_is_current(ada):
    made = ada.create_trigger("daily", "schedule", condition={"cron": "@daily"})
    off = ada.update_trigger(made.trigger_id, made.version, enabled=False)
    assert (off.enabled, off.version, off.condition) == (False, 2, made.condition)
    with refused(ConflictError, 409, "version_conflict") as caught:
        ada.update_trigger(made.trigger_id, made.version, enabled=True)
    assert caught.value.current_version == 2


def test_fired_by_hand_it_makes_an_intent(ada):
    template = {"type": "t", "title": "Made by {{ trigger.name }}", "assignee": "agent.bob", "context": {"n": 1}}
    made = ada.create_trigger("hand", "schedule", intent_template=template)
    fired = ada.fire_trigger(made.trigger_id)
    assert (fired["status"], fired["fire_count"]) == ("fired", 1)
    intent = ada.get_intent(fired["intent_id"])
    assert (intent.title, intent.created_by, intent.status) == ("Made by hand", "agent.ada", IntentStatus.DRAFT)
    state = intent.state.to_dict()
    assert (state["n"], state["trigger"]["trigger_id"]) == (1, made.trigger_id)
    after = ada.get_trigger(made.trigger_id)
    assert (after.fire_count, after.version) == (1, 1)
    assert recent(after.last_fired_at)


def test_what_is_open_is_not_made_twice(ada):
    # Intents of other runs are still open.
    template = {"type": f"once.{time.monotonic_ns()}", "title": "Once"}
    made = ada.create_trigger("once", "schedule", intent_template=template, deduplication="skip")
    assert ada.fire_trigger(made.trigger_id)["status"] == "fired"
    again = ada.fire_trigger(made.trigger_id)
    assert (again["status"], again["reason"], again["intent_id"]) == ("skipped", "deduplicated", None)


def test_an_event_sets_one_off(ada, intent):
    template = {"type": "follow", "title": "After {{ event.intent_id }}"}
    condition = {"event": "intent.resolved", "filter": {"intent_id": intent.id}}
    made = ada.create_trigger("follow", "event", condition=condition, intent_template=template)
    ada.set_status(intent.id, intent.version, IntentStatus.COMPLETED)
    eventually(lambda: ada.get_trigger(made.trigger_id).fire_count == 1, "a firing")
    titles = [one.title for one in ada.list_intents()]
    assert f"After {intent.id}" in titles


def test_a_webhook_sets_one_off(ada):
    secret = "a secret that somebody chose"
    condition = {"path": "/hooks/pay", "secret": secret, "transform": {"amount": "{{ body.amount }}"}}
    template = {"type": "billing", "title": "Pay {{ body.amount }}"}
    made = ada.create_trigger("pay", "webhook", condition=condition, intent_template=template)
    assert (made.condition.path, made.condition.secret) == ("/hooks/pay", None)
    body = json.dumps({"amount": 5000}).encode()
    sent_at = str(int(time.time()))
    mac = hmac.new(secret.encode(), b".".join([b"d1", sent_at.encode(), body]), hashlib.sha256).digest()
    headers = {
        "content-type": "application/json",
        "webhook-id": "d1",
        "webhook-timestamp": sent_at,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }
    url = f"{ada.base_url}/api/v1/hooks/{made.trigger_id}"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        assert answer.status == 202
        taken = json.loads(answer.read())
    intent = ada.get_intent(taken["intent_id"])
    assert (intent.title, intent.state.to_dict()["amount"]) == ("Pay 5000", 5000)


def test_a_trigger_is_taken_away(ada):
    made = ada.create_trigger("gone", "schedule")
    assert ada.delete_trigger(made.trigger_id) is None
    with refused(NotFoundError, 404, "not_found"):
        ada.get_trigger(made.trigger_id)


def test_what_is_no_trigger_is_refused(ada, bob):
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_trigger("n", "manual")
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.create_trigger("n", "schedule", condition={"cron": "every day"})
    made = ada.create_trigger("private", "schedule")
    for trigger_id in (TRIGGER, made.trigger_id):
        with refused(NotFoundError, 404, "not_found"):
            bob.get_trigger(trigger_id)
        with refused(NotFoundError, 404, "not_found"):
            bob.update_trigger(trigger_id, 1, enabled=False)
        with refused(NotFoundError, 404, "not_found"):
            bob.fire_trigger(trigger_id)
        with refused(NotFoundError, 404, "not_found"):
            bob.delete_trigger(trigger_id)
