# Portfolios through the SDK (RFC-0004): ownership, contents, aggregates, and following them.

import pytest
from kit import INTENT, eventually, following, recent, refused
from openintent import ConflictError, EventType, IntentStatus, NotFoundError, OpenIntentError
from openintent.models import MembershipRole, PortfolioStatus
from test_subscriptions import receiver, subscribe

PORTFOLIO = "folio_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


@pytest.fixture
def folio(ada):
    return ada.create_portfolio("Q1 reporting")


def ids(things) -> list[str]:
    return [thing.id for thing in things]


def test_a_portfolio_is_what_was_asked_for(ada):
    made = ada.create_portfolio("Q1", "All of it", {"quorum": 2}, {"team": "finance"})
    assert (made.name, made.description, made.created_by) == ("Q1", "All of it", "agent.ada")
    assert (made.governance_policy, made.metadata) == ({"quorum": 2}, {"team": "finance"})
    assert (made.status, made.intents) == (PortfolioStatus.ACTIVE, [])
    assert recent(made.created_at) and recent(made.updated_at)
    assert (made.aggregate_status.total, made.aggregate_status.completion_percentage) == (0, 0)
    assert ada.get_portfolio(made.id) == made


def test_a_description_may_be_left_out(folio):
    # The reference server refuses it (OI-16.1).
    assert (folio.name, folio.description) == ("Q1 reporting", None)
    assert folio.metadata == folio.governance_policy == {}


def test_a_portfolio_is_its_creators(ada, bob, folio, intent):
    assert folio.id in ids(ada.list_portfolios())
    assert folio.id in ids(ada.list_portfolios(created_by="agent.ada"))
    assert ada.list_portfolios(created_by="agent.bob") == []
    assert folio.id not in ids(bob.list_portfolios()) + ids(bob.list_portfolios(created_by="agent.ada"))
    for unknown in (folio.id, PORTFOLIO, "what"):
        with refused(NotFoundError, 404, "not_found"):
            bob.get_portfolio(unknown)
        with refused(NotFoundError, 404, "not_found"):
            bob.get_portfolio_intents(unknown)
        with refused(NotFoundError, 404, "not_found"):
            bob.update_portfolio_status(unknown, PortfolioStatus.COMPLETED)
        with refused(NotFoundError, 404, "not_found"):
            bob.add_intent_to_portfolio(unknown, intent.id)
        with refused(NotFoundError, 404, "not_found"):
            bob.remove_intent_from_portfolio(unknown, intent.id)
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.create_portfolio("")
    with refused(NotFoundError, 404, "not_found"):
        ada.get_intent_portfolios(INTENT)


def test_a_list_by_what_is_no_name_is_refused(ada):
    with refused(OpenIntentError, 422, "invalid_parameter"):
        ada.list_portfolios(created_by="agent\0ada")


def test_a_status_is_changed_unless_the_rule_forbids_it(ada, folio):
    assert ada.update_portfolio_status(folio.id, PortfolioStatus.ABANDONED).status == PortfolioStatus.ABANDONED
    strict = ada.create_portfolio("strict", governance_policy={"require_all_completed": True})
    part = ada.create_intent("part", "")
    ada.add_intent_to_portfolio(strict.id, part.id)
    with refused(ConflictError, 409, "invalid_transition"):
        ada.update_portfolio_status(strict.id, PortfolioStatus.COMPLETED)
    ada.set_status(part.id, part.version, IntentStatus.COMPLETED)
    assert ada.update_portfolio_status(strict.id, PortfolioStatus.COMPLETED).status == PortfolioStatus.COMPLETED


def test_intents_are_put_in_and_taken_out(ada, folio):
    first, second = ada.create_intent("first", ""), ada.create_intent("second", "")
    place = ada.add_intent_to_portfolio(folio.id, first.id)
    assert (place.portfolio_id, place.intent_id) == (folio.id, first.id)
    assert (place.role, place.priority) == (MembershipRole.MEMBER, 0)
    assert recent(place.added_at)
    primary = ada.add_intent_to_portfolio(folio.id, second.id, MembershipRole.PRIMARY, 10)
    assert (primary.role, primary.priority) == (MembershipRole.PRIMARY, 10)
    done = ada.set_status(first.id, first.version, IntentStatus.COMPLETED)
    intents, sums = ada.get_portfolio_intents(folio.id)
    assert intents == [second, done]
    assert (sums.total, sums.by_status, sums.completion_percentage) == (2, {"completed": 1, "draft": 1}, 50)
    whole = ada.get_portfolio(folio.id)
    assert (whole.intents, whole.aggregate_status) == (intents, sums)
    assert ids(ada.get_intent_portfolios(first.id)) == [folio.id]
    assert ada.remove_intent_from_portfolio(folio.id, first.id) is None
    assert ids(ada.get_portfolio_intents(folio.id)[0]) == [second.id]
    assert ada.get_intent_portfolios(first.id) == []
    with refused(NotFoundError, 404, "not_found"):
        ada.remove_intent_from_portfolio(folio.id, first.id)
    with refused(NotFoundError, 404, "not_found"):
        ada.add_intent_to_portfolio(folio.id, INTENT)


@pytest.mark.parametrize("way", ["subscribe_portfolio", "create_event_queue"])
def test_a_portfolio_is_followed(connect, way):
    # Only the synchronous client has streams.
    ada, bob = connect("agent.ada", flavour="sync"), connect("agent.bob", flavour="sync")
    folio = ada.create_portfolio("followed")
    first, outside = bob.create_intent("first", ""), bob.create_intent("outside", "")
    ada.add_intent_to_portfolio(folio.id, first.id)
    if way == "create_event_queue":
        with ada.create_event_queue(portfolio_id=folio.id) as queue:
            # It starts to follow in its own thread.
            def heard():
                bob.log_event(first.id, EventType.COMMENT, {"note": "now"})
                event = queue.get(timeout=0.2)
                return event and event.data.get("payload") == {"note": "now"}

            eventually(heard, "a comment")
        return
    with following(ada.subscribe_portfolio(folio.id)) as inbox:
        bob.update_state(outside.id, 1, {"n": 1})
        bob.update_state(first.id, 1, {"n": 2})
        patched = inbox.next("STATE_CHANGED")
        assert (patched.intent_id, patched.data["new_state"]) == (first.id, {"n": 2})
        ada.add_intent_to_portfolio(folio.id, outside.id)
        bob.set_status(outside.id, 2, IntentStatus.COMPLETED)
        assert inbox.next("STATUS_CHANGED").intent_id == outside.id


def test_webhooks_follow_a_portfolio(ada, bob, flavour, folio):
    inside, outside = bob.create_intent("inside", ""), bob.create_intent("outside", "")
    ada.add_intent_to_portfolio(folio.id, inside.id)
    with receiver() as (hook, got):
        made = subscribe(ada, flavour, webhook_url=hook, event_types=["state_patched"], portfolio_id=folio.id)
        assert (made.portfolio_id, made.intent_id) == (folio.id, None)
        assert ada.get_subscriptions(portfolio_id=folio.id) == [made]
        bob.update_state(outside.id, 1, {"n": 1})
        bob.update_state(inside.id, 1, {"n": 2})
        [(_, body)] = eventually(lambda: list(got), "the delivery")
        assert inside.id.encode() in body
        ada.unsubscribe(made.id)
    with refused(NotFoundError, 404, "not_found"):
        subscribe(bob, flavour, webhook_url="https://hooks.example/in", portfolio_id=folio.id)
