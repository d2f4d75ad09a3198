# Retry policies and failures through the SDK (RFC-0010), and notifying its agents to retry.

from datetime import timedelta

from conftest import AGENTS
from kit import INTENT, following, now, recent, refused
from openintent import (
    AccessPolicy,
    IntentStatus,
    NotFoundError,
    OpenIntentError,
    Permission,
    RetryStrategy,
    SSEStream,
)


def concerning(url, agent):
    """Returns the events for an agent, as `@Agent` follows them; both clients would read them alike."""
    headers = {"X-API-Key": AGENTS[agent], "X-Agent-ID": agent}
    return following(SSEStream(f"{url}/api/v1/agents/{agent}/subscribe", headers=headers))


def retried(inbox, intent):
    """Returns the next retry of the intent: a stream begins with the agent's open assignments."""
    while "retry_attempt" not in (told := inbox.next("AGENT_ASSIGNED")).data or told.intent_id != intent.id:
        pass
    return told


def fail(sdk, flavour, intent_id, attempt=1):
    """Reports a failure with the arguments of each client."""
    if flavour == "async":
        return sdk.record_failure(intent_id, "timeout", "no answer", metadata={"host": "archive"})
    return sdk.record_failure(intent_id, attempt, "timeout", "no answer", metadata={"host": "archive"})


def test_a_policy_is_set_and_read(ada, bob, intent):
    assert ada.get_retry_policy(intent.id) is None
    made = ada.set_retry_policy(intent.id, RetryStrategy.LINEAR, max_retries=5, fallback_agent_id="agent.eve")
    assert (made.intent_id, made.strategy, made.max_retries) == (intent.id, RetryStrategy.LINEAR, 5)
    assert (made.base_delay_ms, made.fallback_agent_id, made.failure_threshold) == (1000, "agent.eve", 3)
    assert recent(made.created_at) and recent(made.updated_at)
    assert bob.get_retry_policy(intent.id) == made
    changed = bob.set_retry_policy(intent.id, RetryStrategy.NONE)
    assert (changed.id, changed.strategy, changed.fallback_agent_id) == (made.id, RetryStrategy.NONE, None)


def test_a_failure_is_recorded(ada, bob, intent, flavour):
    made = fail(bob, flavour, intent.id)
    assert (made.intent_id, made.agent_id, made.attempt_number) == (intent.id, "agent.bob", 1)
    assert (made.error_code, made.error_message) == ("timeout", "no answer")
    assert (made.retry_scheduled_at, made.resolved_at, made.metadata) == (None, None, {"host": "archive"})
    assert recent(made.created_at)
    second = fail(bob, flavour, intent.id, 2)
    assert second.attempt_number == 2
    assert ada.get_failures(intent.id) == [made, second]


def test_a_failure_says_when_to_try_again(ada, intent, flavour):
    ada.set_retry_policy(intent.id, RetryStrategy.FIXED, base_delay_ms=20_000, max_delay_ms=20_000)
    made = fail(ada, flavour, intent.id)
    pause = made.retry_scheduled_at - made.created_at
    # Random jitter shortens it by up to a fifth.
    assert timedelta(seconds=16) <= pause <= timedelta(seconds=20)


def test_an_agent_is_told_to_try_again(url, ada, bob, intent, flavour):
    ada.assign_agent(intent.id, "agent.bob")
    ada.set_retry_policy(intent.id, RetryStrategy.FIXED, base_delay_ms=0)
    with concerning(url, "agent.bob") as inbox:
        fail(bob, flavour, intent.id)
        told = retried(inbox, intent)
    # The arguments of `@on_retry` (OI-11.5.2).
    assert (told.data["intent_id"], told.data["retry_attempt"]) == (intent.id, 1)
    assert (told.data["last_error"], told.data["delegated_by"]) == ("no answer", None)


def test_a_fallback_has_its_turn(url, ada, bob, intent, flavour):
    fallback = {"fallback_agent_id": "agent.eve"}
    ada.set_retry_policy(intent.id, RetryStrategy.NONE, **fallback)
    # Only an agent that has the intent can hand it on.
    ada.assign_agent(intent.id, "agent.bob")
    with concerning(url, "agent.eve") as inbox:
        fail(bob, flavour, intent.id)
        told = retried(inbox, intent)
    assert (told.data["intent_id"], told.data["delegated_by"]) == (intent.id, "agent.bob")
    assert (told.data["retry_attempt"], told.data["last_error"]) == (1, "no answer")


def test_completing_the_intent_settles_its_failures(ada, intent, flavour):
    fail(ada, flavour, intent.id)
    ada.set_status(intent.id, ada.get_intent(intent.id).version, IntentStatus.COMPLETED)
    [settled] = ada.get_failures(intent.id)
    assert recent(settled.resolved_at)


def test_a_retry_that_the_agent_plans_itself_is_kept(ada, intent, flavour):
    if flavour == "async":
        return  # this client lacks the argument
    at = now() + timedelta(minutes=5)
    assert ada.record_failure(intent.id, 1, retry_scheduled_at=at).retry_scheduled_at == at


def test_who_may_not_is_refused(ada, bob, intent, flavour):
    ada.grant_access(intent.id, "agent.bob", permission=Permission.READ)
    with refused(OpenIntentError, 403, "forbidden"):
        fail(bob, flavour, intent.id)
    with refused(OpenIntentError, 403, "forbidden"):
        bob.set_retry_policy(intent.id, RetryStrategy.FIXED)
    with refused(OpenIntentError, 422, "unprocessable"):
        ada.set_retry_policy(intent.id, RetryStrategy.FIXED, fallback_agent_id="agent.bob")
    with refused(OpenIntentError, 422, "invalid_request"):
        ada.set_retry_policy(intent.id, RetryStrategy.FIXED, max_retries=101)
    with refused(NotFoundError, 404, "not_found"):
        fail(ada, flavour, INTENT)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_failures(INTENT)


def test_a_policy_that_may_not_be_read_is_refused(ada, bob, intent):
    ada.set_acl(intent.id, AccessPolicy.CLOSED)
    with refused(OpenIntentError, 403, "access_closed"):
        bob.get_retry_policy(intent.id)
    # Distinct from a missing policy, which is None.
    assert ada.get_retry_policy(intent.id) is None
