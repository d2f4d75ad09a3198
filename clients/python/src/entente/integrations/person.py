"""Who decides for an agent of a framework, and for which run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import _approvals
from .._approvals import Asking, Call, Verdict
from .._async import approvals as _async
from .._async.client import AsyncEntente
from .._generated.answers import Moment
from .._settings import Settings
from .._sync import approvals as _sync
from .._sync.client import Entente


class Person:
    """A person who approves calls of tools, and answers questions.

    With a `run` a program that was killed finds its questions again when it is started anew: name the work, such as a ticket's id, and let
    one process at a time work on it. Server, key, and what writes must hold under are those of `client`, or of ENTENTE_URL and
    ENTENTE_API_KEY; its connections too, of an asynchronous client only in the event loop that uses it. `options` are those of
    `requests.NewMoment`, such as `intent_id`, `expires_in` and `escalate_to`; `question` writes another question about a call, whose first
    option runs it.
    """

    def __init__(
        self,
        principal_id: str,
        *,
        run: str | None = None,
        client: Entente | AsyncEntente | None = None,
        agent_id: str | None = None,
        question: Callable[[Call], dict[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        settings = Settings.of(None, None, agent_id, 30.0, 30.0) if client is None else client.transport.settings
        if agent_id is not None:
            settings = replace(settings, agent_id=agent_id)
        self._asking = Asking(settings, principal_id, run or _approvals.fresh(), options, question, client)

    def of_run(self, run: str) -> Person:
        """Returns the same person for another run."""
        other = object.__new__(Person)
        other._asking = replace(self._asking, run=run)
        return other

    def approve(self, call: Call) -> Verdict:
        """Asks whether a call may run, and waits for the answer however long it takes."""
        return _sync.approve(self._asking, call)

    async def aapprove(self, call: Call) -> Verdict:
        """Asks whether a call may run, and waits for the answer however long it takes."""
        return await _async.approve(self._asking, call)

    def decide(self, question: dict[str, Any], *, name: str | None = None) -> Moment:
        """Asks a question of the eight slots, and returns it with its end. A `name` is that of one question of the run, whose answer
        stands; without one each answer is used once."""
        return _sync.decide(self._asking, name, question)

    async def adecide(self, question: dict[str, Any], *, name: str | None = None) -> Moment:
        """Asks a question of the eight slots, and returns it with its end, as `decide` does."""
        return await _async.decide(self._asking, name, question)


def of(person: Person | str, run: str | None = None, client: Entente | None = None) -> Person:
    """Returns a person who may be given by name, for a run if one is given; a `Person` has a client of its own."""
    if isinstance(person, str):
        return Person(person, run=run, client=client)
    return person if run is None else person.of_run(run)
