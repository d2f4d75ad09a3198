"""Pydantic AI: tools that require approval are put to a person while the agent runs.

    agent = Agent("openai:gpt-5", capabilities=[Approvals("human.ada")])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int, to: str) -> str: ...

With `Person("human.ada", run="q1")` in place of the name, a killed program finds its questions again when it is started anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import DeferredToolApprovalResult, DeferredToolRequests, DeferredToolResults, RunContext, ToolApproved, ToolDenied

from .._approvals import Call
from .person import Person, of


@dataclass
class Approvals(AbstractCapability[Any]):
    """Puts calls that require approval to a person, all of one step at once."""

    person: Person | str

    def __post_init__(self) -> None:
        self._person = of(self.person)

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> DeferredToolResults | None:
        """Asks, and returns the answers; calls that something else executes are left to others."""
        # The ids of calls are new when a killed run begins again, so a question is found by what it asks.
        calls = [Call(one.tool_name, one.args_as_dict()) for one in requests.approvals]
        verdicts = await asyncio.gather(*(self._person.aapprove(call) for call in calls))
        found: dict[str, bool | DeferredToolApprovalResult] = {}
        for request, verdict in zip(requests.approvals, verdicts, strict=True):
            edited = verdict.arguments if verdict.kind == "edit" else None
            found[request.tool_call_id] = ToolApproved(override_args=edited) if verdict.approved else ToolDenied(verdict.message)
        return requests.build_results(approvals=found) if found else None
