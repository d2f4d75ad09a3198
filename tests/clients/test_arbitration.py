# Arbitration and decisions through the SDK (RFC-0003, OI-6).

from kit import INTENT, recent, refused
from openintent import EventType, NotFoundError, OpenIntentError, Permission


def test_arbitration_is_asked_for(ada, bob, intent):
    asked = bob.request_arbitration(intent.id, "we disagree", {"scope": "hotel"})
    assert (asked.intent_id, asked.requester_id, asked.reason) == (intent.id, "agent.bob", "we disagree")
    assert (asked.context, asked.status) == ({"scope": "hotel"}, "pending")
    assert recent(asked.created_at)
    newest = ada.get_events(intent.id)[0]
    assert (newest.event_type, newest.actor) == (EventType.ARBITRATION_REQUESTED, "agent.bob")
    assert bob.request_arbitration(intent.id, "and once more").context == {}


def test_a_decision_is_recorded(ada, bob, intent):
    made = ada.record_decision(intent.id, "arbitration", "bob goes first", "he is nearly done")
    assert (made.intent_id, made.decision_maker_id) == (intent.id, "agent.ada")
    assert (made.decision_type, made.outcome, made.reasoning) == ("arbitration", "bob goes first", "he is nearly done")
    assert recent(made.created_at)
    assert bob.get_decisions(intent.id) == [made]
    assert ada.get_events(intent.id)[0].event_type == EventType.DECISION_RECORDED


def test_decisions_are_listed_in_their_order(ada, intent):
    assert ada.get_decisions(intent.id) == []
    made = [ada.record_decision(intent.id, "escalation", outcome, "") for outcome in ("first", "second")]
    assert ada.get_decisions(intent.id) == made


def test_who_may_not_is_refused(ada, bob, eve, intent):
    ada.grant_access(intent.id, "agent.bob", permission=Permission.WRITE)
    bob.request_arbitration(intent.id, "we disagree")
    with refused(OpenIntentError, 403, "forbidden"):
        bob.record_decision(intent.id, "arbitration", "me", "")
    with refused(OpenIntentError, 403, "forbidden"):
        eve.request_arbitration(intent.id, "we disagree")
    assert eve.get_decisions(intent.id) == []


def test_an_intent_that_is_not_there_has_no_decisions(ada):
    with refused(NotFoundError, 404, "not_found"):
        ada.request_arbitration(INTENT, "why")
    with refused(NotFoundError, 404, "not_found"):
        ada.get_decisions(INTENT)
