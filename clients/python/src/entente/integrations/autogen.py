"""AutoGen AgentChat: a person takes part in a team, and decides on calls of tools and on code.

    ada = UserProxyAgent("ada", person="human.ada")                                          # in place of AutoGen's own
    payer = AssistantAgent("payer", model_client=model, workbench=Approvals([pay], "human.ada"))
    coder = CodeExecutorAgent("coder", executor, approval_func=approve_code("human.ada"))

With `Person("human.ada", run="q1")` in place of the name, a killed program finds its questions again when it is started anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from autogen_agentchat.agents import ApprovalRequest, ApprovalResponse
from autogen_agentchat.agents import UserProxyAgent as _UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, StaticWorkbench, TextResultContent, ToolResult

from .. import _approvals
from .._approvals import Call
from .person import Person, of

T = TypeVar("T")


class Approvals(StaticWorkbench):
    """A workbench whose tools run once a person has approved the call."""

    def __init__(self, tools: list[BaseTool[Any, Any]], person: Person | str) -> None:
        super().__init__(tools)
        self._person = of(person)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Asks, and runs the call as it was decided."""
        verdict = await _linked(self._person.aapprove(Call(name, arguments or {})), cancellation_token)
        if not verdict.approved:
            return ToolResult(name=name, result=[TextResultContent(content=verdict.message)], is_error=True)
        return await super().call_tool(name, verdict.arguments, cancellation_token, call_id)


class UserProxyAgent(_UserProxyAgent):
    """A person who is asked what to answer to the latest message: one of the options, or their own words."""

    def __init__(self, name: str, *, person: Person | str, description: str = "A human user", options: Sequence[str] = ("Yes", "No")) -> None:
        super().__init__(name, description=description, input_func=self._asked)
        self._person, self._options, self._heard = of(person), options, ""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        """Asks the person, and answers with what they say."""
        self._heard = f"{messages[-1].source}: {messages[-1].to_text()}" if messages else ""
        async for one in super().on_messages_stream(messages, cancellation_token):
            yield one

    async def _asked(self, prompt: str, cancellation_token: CancellationToken | None) -> str:
        question = _approvals.open_question(self._heard or prompt, self._options, f"{self.name} answers so.")
        found = _approvals.words(await _linked(self._person.adecide(question), cancellation_token), question)
        if isinstance(found, str):
            return found
        return f"{self.name} refused the question: {found['refused']}" if "refused" in found else f"{self.name} did not answer."


async def _linked(asking: Coroutine[Any, Any, T], token: CancellationToken | None) -> T:
    """Waits for an answer until the token is cancelled. The question stays open: the next run finds it."""
    task = asyncio.create_task(asking)
    if token is not None:
        token.link_future(task)
    return await task


def approve_code(person: Person | str) -> Callable[[ApprovalRequest], Awaitable[ApprovalResponse]]:
    """Returns an `approval_func` for a CodeExecutorAgent. Code cannot be edited: AutoGen takes yes or no."""
    who = of(person)

    async def approve(request: ApprovalRequest) -> ApprovalResponse:
        verdict = await who.aapprove(Call("execute_code", {"code": request.code}))
        return ApprovalResponse(approved=verdict.kind == "approve", reason=verdict.message or "Code may not be edited.")

    return approve
