"""Approvals in the asynchronous client: a call of a tool is put to a person, once, however often the program is killed and started again."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from .. import _approvals
from .._approvals import Asking, Call, Verdict, held
from .._generated import operations as api
from .._generated.answers import Moment
from .._records import members
from ..errors import ConflictError
from . import waiting
from .client import AsyncEntente
from .decisions import LONG_POLL
from .transport import Transport

# Pages of earlier questions to look through, of a hundred each.
PAGES = 5


@asynccontextmanager
async def connected(asking: Asking) -> AsyncIterator[AsyncEntente]:
    """Yields a client with the settings of this question. It uses the connections of the client that was given where it can, and else its
    own: the loop that runs now may not be the one of the next question."""
    given = asking.client
    if isinstance(given, AsyncEntente) and not given.transport.http.is_closed and waiting.reaches(given.transport.http):
        yield AsyncEntente.of(asking.settings, given.transport.http)
    else:
        async with AsyncEntente.of(asking.settings) as client:
            yield client


async def approve(asking: Asking, call: Call) -> Verdict:
    """Asks whether a call may run, and waits for the answer however long it takes."""
    written = (asking.question or _approvals.question)(call)
    async with connected(asking) as client:
        try:
            return _approvals.verdict(call, await decided(client, asking, asking.named(call), written, named=call.id is not None))
        except ConflictError as refused:
            if refused.code not in ("same_question", "deliberation_required"):
                raise
            return _approvals.unasked(call, refused.message)


async def decide(asking: Asking, name: str | None, question: dict[str, Any]) -> Moment:
    """Asks a question of the eight slots, and returns it with its end."""
    async with connected(asking) as client:
        key = asking.key(_approvals.plain(question) if name is None else name)
        return await decided(client, asking, key, question, named=name is not None)


async def decided(client: AsyncEntente, asking: Asking, key: str, question: dict[str, Any], *, named: bool) -> Moment:
    """Asks a question under its key, and waits for its end.

    A key that is `named` belongs to one call, whose answer stands. Any other key belongs to all equal calls of a run, one after the other,
    and each answer is used once: a killed program's question is taken over as long as nobody has acknowledged its answer.
    """
    while True:
        try:
            found, is_ours = await _asked(client, asking, key, question, named)
        except ConflictError as refused:
            other = re.search(r"\bbm_\w+", refused.message)
            if refused.code != "same_question" or other is None:
                raise
            found = await client.call(api.get_moment(other[0]))
            # An equal question that the person has refused must not come back; one that is answered by now is in nobody's way.
            if found.state != "open" and found.resolution is not None and found.resolution.kind == "dialogue":
                raise
            # The server forgets idempotency keys after a day, and the question has its own.
            is_ours = found.corr == key and (named or (_unused(found) and held.take(found.id)))
        try:
            ended = await _ended(client.transport, found.id)
            if not is_ours or (not named and ended.acknowledged_at is not None):
                continue  # an equal call's, which has used the answer; this one has its turn now
            if ended.resolution is not None and ended.acknowledged_at is None:
                await client.call(api.acknowledge_moment(ended.id).repeatable())
            return ended
        finally:
            if is_ours:
                held.leave(found.id)


async def _asked(client: AsyncEntente, asking: Asking, key: str, question: dict[str, Any], named: bool) -> tuple[Moment, bool]:
    """Finds or asks a question; also returns whether it is this call's."""
    options = {"corr": key, **asking.options}
    earlier = await _earlier(client, asking, key)
    if named:
        # The server forgets idempotency keys after a day. One that was asked in other words, by another version of the program, stands too.
        if earlier and not _wordless(earlier[0]):
            return earlier[0], True
        return Moment(members(await client.ask_person(asking.principal_id, question, idempotency_key=key, **options))), True
    for one in earlier:
        if _unused(one) and held.take(one.id):
            return one, True
    for number in itertools.count(len(earlier)):
        asked = Moment(members(await client.ask_person(asking.principal_id, question, idempotency_key=f"{key}-{number}", **options)))
        if _unused(asked):
            return asked, held.take(asked.id)
    raise AssertionError("the numbers have ended")


def _unused(moment: Moment) -> bool:
    """Whether a question can still be decided, or has been and nobody has used the answer. A refused one is never taken over: the server says
    that it was refused."""
    if moment.resolution is None or moment.acknowledged_at is not None:
        return moment.state == "open"
    return moment.resolution.kind != "dialogue"


def _wordless(moment: Moment) -> bool:
    """Whether a person has answered in words that the server does not keep any more."""
    resolution = moment.resolution
    return resolution is not None and resolution.kind == "free_text" and resolution.answer is None


async def _earlier(client: AsyncEntente, asking: Asking, key: str) -> list[Moment]:
    """Returns the questions under a key, newest first."""
    agent = await client.acting()
    found: list[Moment] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.call(api.list_moments(principal=asking.principal_id, agent=agent, limit=100, cursor=cursor))
        found += [one for one in page.moments if one.corr == key]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _ended(transport: Transport, moment_id: str) -> Moment:
    """Waits until nobody can decide any more, through every restart of the server."""
    while True:
        found = (await transport.send(api.get_moment(moment_id, wait=LONG_POLL), math.inf)).value
        if found.state != "open":
            return found
