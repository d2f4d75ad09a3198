"""Decisions in the asynchronous client: a question to a person, and the wait for the answer."""

from __future__ import annotations

import time
from typing import Any

from .._generated import operations as api
from .._generated.answers import EmittedMoment, Moment
from ..errors import DecisionTimeoutError, NotFoundError
from .transport import Transport

# Seconds that one request waits for the answer.
LONG_POLL = 25
# A refused question (`deliberating`) may be replaced; the agent has to act, so waiting ends there too.
_WAITING = ("open",)


async def ask_person(
    transport: Transport, principal_id: str, question: dict[str, Any], idempotency_key: str | None, options: dict[str, Any]
) -> EmittedMoment:
    """Asks a person, once."""
    body: Any = {"principal_id": principal_id, "binding_moment": question, **options}
    return await transport.call(api.emit_moment(body, idempotency_key=idempotency_key))


async def wait_for_decision(transport: Transport, moment_id: str, timeout: float | None) -> Moment:
    """Returns the moment once the person has decided, or once nobody can any more, and acknowledges an answer."""
    until = None if timeout is None else time.monotonic() + timeout
    wait = 0
    while True:
        found = await transport.call(api.get_moment(moment_id, wait=wait or None))
        if found.state not in _WAITING:
            break
        left = LONG_POLL if until is None else until - time.monotonic()
        if left <= 0:
            raise DecisionTimeoutError(found)
        wait = max(1, min(LONG_POLL, round(left)))
    if found.resolution is not None and found.acknowledged_at is None:
        try:
            return await transport.call(api.acknowledge_moment(moment_id).repeatable())
        except NotFoundError:
            pass  # whoever only watches a question cannot acknowledge its answer
    return found


def answer(moment: Moment) -> str | None:
    """Returns what the person decided: the label of the chosen option, or their own words; None if they refused the question, or if it
    ended without an answer. Silence approves nothing."""
    resolution = moment.resolution
    if resolution is None:
        return None
    if resolution.option_idx is None:
        return resolution.answer
    if moment.binding_moment is None:
        return None
    return moment.binding_moment.question.options[resolution.option_idx].label
