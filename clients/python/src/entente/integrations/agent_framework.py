"""Microsoft Agent Framework: calls of functions are put to a person before they run.

    agent = Agent(client=client, tools=[pay, look], middleware=[Approvals("human.ada", tools=["pay"])])

With `Person("human.ada", run="q1")` in place of the name, a killed program finds its questions again when it is started anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

from agent_framework import FunctionInvocationContext, FunctionMiddleware

from .._approvals import Call
from .person import Person, of


class Approvals(FunctionMiddleware):
    """Asks a person about every call, or those of some tools. Calls of one step are asked at once, because they run at once."""

    def __init__(self, person: Person | str, *, tools: Collection[str] | None = None) -> None:
        self._person = of(person)
        self._tools = tools

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Runs a call as it was decided; the model is told why one does not run."""
        if self._tools is not None and context.function.name not in self._tools:
            return await call_next()
        given = context.arguments
        arguments = dict(given) if isinstance(given, Mapping) else given.model_dump()
        verdict = await self._person.aapprove(Call(context.function.name, arguments, description=context.function.description))
        if not verdict.approved:
            context.result = verdict.message
            return None
        if verdict.kind == "edit":
            context.arguments = verdict.arguments
        return await call_next()
