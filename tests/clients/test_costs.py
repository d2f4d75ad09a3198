# Costs through the SDK (RFC-0009): exact sums, and separate sums for different units.

import pytest
from kit import INTENT, recent, refused
from openintent import NotFoundError, OpenIntentError, Permission


def test_costs_are_recorded_and_added_up(ada, bob, intent):
    made = ada.record_cost(intent.id, "tokens", 1200, "tokens", "openai", {"model": "gpt", "prompt_tokens": 900})
    assert (made.intent_id, made.agent_id, made.cost_type) == (intent.id, "agent.ada", "tokens")
    assert (made.amount, made.unit, made.provider) == (1200, "tokens", "openai")
    assert made.metadata == {"model": "gpt", "prompt_tokens": 900}
    assert recent(made.recorded_at)
    second = bob.record_cost(intent.id, "custom", 34, "tokens")
    costs, summary = bob.get_costs(intent.id)
    assert costs == [made, second]
    assert (summary.total, summary.by_type) == (1234, {"tokens": 1200, "custom": 34})
    assert summary.by_agent == {"agent.ada": 1200, "agent.bob": 34}


def test_an_intent_without_costs(ada, intent):
    costs, summary = ada.get_costs(intent.id)
    assert (costs, summary.total, summary.by_type, summary.by_agent) == ([], 0, {}, {})


def test_cents_stay_cents(ada, intent):
    for _ in range(10):
        ada.record_cost(intent.id, "api_call", 0.1, "USD")
    _, summary = ada.get_costs(intent.id)
    # Ten times 0.1 in doubles is 0.9999999999999999.
    assert summary.total == 1


def test_what_doubles_add_up_to_is_taken(ada, intent):
    assert ada.record_cost(intent.id, "api_call", 0.1 + 0.2, "USD").amount == 0.3


def test_different_units_have_no_sum(ada, intent):
    ada.record_cost(intent.id, "tokens", 5, "tokens")
    ada.record_cost(intent.id, "api_call", 2, "USD")
    _, summary = ada.get_costs(intent.id)
    assert (summary.total, summary.by_agent) == (None, {"agent.ada": None})
    assert summary.by_type == {"tokens": 5, "api_call": 2}


@pytest.mark.parametrize("amount", [-1, 1e30, "much"])
def test_what_is_no_amount_is_refused(ada, intent, amount):
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.record_cost(intent.id, "tokens", amount, "tokens")


def test_who_may_not_is_refused(ada, bob, intent):
    with refused(NotFoundError, 404, "not_found"):
        ada.record_cost(INTENT, "tokens", 1, "tokens")
    with refused(NotFoundError, 404, "not_found"):
        ada.get_costs(INTENT)
    ada.grant_access(intent.id, "agent.bob", permission=Permission.READ)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.record_cost(intent.id, "tokens", 1, "tokens")
    assert bob.get_costs(intent.id)[0] == []
