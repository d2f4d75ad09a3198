"""OpenAI Agents SDK: tools with `needs_approval` are put to a person, and a run survives the program.

    result = await run(agent, "Pay Bob.", run="q1", person="human.ada")          # in place of Runner.run(agent, "Pay Bob.")

While the person thinks, the run's state is in the memory of an agent in Entente. A killed program that calls this again goes on there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from agents import Agent, FunctionTool, Runner, RunResult, RunState
from agents.items import ToolApprovalItem, TResponseInputItem
from agents.memory import SessionABC
from agents.tool_context import ToolContext

from .._approvals import Call
from .._generated.answers import MemoryEntry
from .._sync.client import Entente
from .person import Person, of
from .store import Store


async def run(
    agent: Agent[Any], input: Any, *, run: str, person: Person | str, client: Entente | None = None, **options: Any
) -> RunResult:
    """Does what `Runner.run` does, and puts every interruption to a person until there is none. A run of this name that is in the middle of
    its work goes on there, without the input. `options` are those of `Runner.run`."""
    who = of(person, run, client)
    # A namespace of its own: sessions have those that begin with "openai-agents ".
    store = await asyncio.to_thread(Store, f"openai-agents-run {run}", client)
    kept = await asyncio.to_thread(store.get, "state")
    state = None if kept is None else await RunState.from_json(agent, json.loads(kept), context_override=options.get("context"))
    result = None if state is not None else await Runner.run(agent, input, **options)
    while True:
        if result is not None:
            if not result.interruptions:
                await asyncio.to_thread(store.delete)
                return result
            # Before anybody is asked: an answer belongs to a call of this state.
            state = result.to_state()
            await asyncio.to_thread(store.put, "state", json.dumps(state.to_json()).encode())
        assert state is not None
        result = await Runner.run(agent, await _decided(state, who), **options)


async def _decided(state: RunState[Any], who: Person) -> RunState[Any]:
    """Approves or rejects every interruption of a state."""
    items = state.get_interruptions()
    calls = [_call(item) for item in items]
    verdicts = await asyncio.gather(*(who.aapprove(call) for call in calls))
    for item, verdict in zip(items, verdicts, strict=True):
        if verdict.kind == "approve" or (verdict.kind == "edit" and _edit(item, verdict.arguments)):
            state.approve(item)
        else:
            state.reject(item, rejection_message=verdict.message or f"{item.name} did not run: its arguments cannot be edited.")
    return state


# Arguments that a person has put in place of a call's own, by the call's id.
_edited: dict[str, str] = {}


class _Editable:
    """A tool's function that looks whether a call has other arguments. The SDK approves a call only as the model made it."""

    def __init__(self, own: Callable[[ToolContext[Any], str], Awaitable[Any]]) -> None:
        self._own = own

    async def __call__(self, context: ToolContext[Any], given: str) -> Any:
        other = _edited.pop(context.tool_call_id, None)
        found = await self._own(context, given if other is None else other)
        return found if other is None or not isinstance(found, str) else f"(A person had it run with {other}.) {found}"


def _edit(item: ToolApprovalItem, arguments: dict[str, Any]) -> bool:
    """Makes a call run with other arguments; only calls of an agent's own functions can."""
    tool = next((one for one in item.agent.tools if isinstance(one, FunctionTool) and one.name == item.name), None)
    if tool is None or item.call_id is None:
        return False
    _edited[item.call_id] = json.dumps(arguments)
    if not isinstance(tool.on_invoke_tool, _Editable):
        tool.on_invoke_tool = _Editable(tool.on_invoke_tool)
    return True


def _call(item: ToolApprovalItem) -> Call:
    try:
        found = json.loads(item.arguments or "{}")
    except ValueError:
        found = item.arguments
    return Call(item.name or "a tool", found if isinstance(found, dict) else {"input": found}, item.call_id)


class EntenteSession(SessionABC):
    """A conversation that is kept in the memory of an agent, with its latest thousand items: `Runner.run(…, session=EntenteSession("q1"))`."""

    def __init__(self, session_id: str, client: Entente | None = None) -> None:
        self.session_id = session_id
        self._store = Store(f"openai-agents {session_id}", client)

    def _entries(self) -> list[MemoryEntry]:
        return sorted(self._store.entries(), key=lambda one: one.key)

    def _add(self, items: list[TResponseInputItem]) -> None:
        entries = self._entries()
        number = int(entries[-1].key) + 1 if entries else 0
        for item in items:
            # A number that another program took meanwhile is passed over.
            while not self._store.put(f"{number:012}", json.dumps(item).encode(), replace=False):
                number += 1
            number += 1

    def _pop(self) -> TResponseInputItem | None:
        entries = self._entries()
        if not entries:
            return None
        found: TResponseInputItem = json.loads(self._store.value(entries[-1]))
        self._store.delete(entries[-1].key)
        return found

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Returns the items, or the latest of them, oldest first."""
        entries = await asyncio.to_thread(self._entries)
        kept = entries if limit is None else entries[len(entries) - min(limit, len(entries)) :]
        return [json.loads(await asyncio.to_thread(self._store.value, one)) for one in kept]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items."""
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the latest item, and returns it."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Removes all items."""
        await asyncio.to_thread(self._store.delete)
