"""OpenAI Agents SDK: tools with `needs_approval` are put to a person, and a run survives the program.

    result = await run(agent, "Pay Bob.", run="q1", person="human.ada")          # in place of Runner.run(agent, "Pay Bob.")

While the person thinks the run's state is in the memory of an agent in Entente. A killed program that calls this again goes on there.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, Runner, RunResult, RunState
from agents.items import ToolApprovalItem

from .._approvals import Call
from .._sync.client import Entente
from .person import Person, of
from .store import Store


async def run(
    agent: Agent[Any], input: Any, *, run: str, person: Person | str, client: Entente | None = None, **options: Any
) -> RunResult:
    """Does what `Runner.run` does, and puts every interruption to a person until there is none. A run of this name that is in the middle of
    its work goes on there, without the input. `options` are those of `Runner.run`."""
    who = of(person, run)
    store = await asyncio.to_thread(Store, "openai-agents", client)
    kept = await asyncio.to_thread(store.get, run)
    state = None if kept is None else await _read(agent, json.loads(kept), options)
    result = None if state is not None else await Runner.run(agent, input, **options)
    while True:
        if result is not None:
            if not result.interruptions:
                await asyncio.to_thread(store.delete, run)
                return result
            # Before anybody is asked: an answer belongs to a call of this state.
            state = result.to_state()
            await asyncio.to_thread(store.put, run, json.dumps(state.to_json()).encode())
        assert state is not None
        result = await Runner.run(agent, await _decided(agent, state, who, options), **options)


async def _read(agent: Agent[Any], kept: dict[str, Any], options: dict[str, Any]) -> RunState[Any]:
    return await RunState.from_json(agent, kept, context_override=options.get("context"))


async def _decided(agent: Agent[Any], state: RunState[Any], who: Person, options: dict[str, Any]) -> RunState[Any]:
    """Returns the state with every interruption approved or rejected."""
    calls = [_call(item) for item in state.get_interruptions()]
    verdicts = await asyncio.gather(*(who.aapprove(call) for call in calls))
    edited = {call.id: verdict.arguments for call, verdict in zip(calls, verdicts, strict=True) if verdict.kind == "edit"}
    if edited:
        # The SDK approves a call as it is. So that what runs is what its history says, the call is changed everywhere.
        state = await _read(agent, _edited(state.to_json(), edited), options)
    for item, verdict in zip(state.get_interruptions(), verdicts, strict=True):
        if verdict.approved:
            state.approve(item)
        else:
            state.reject(item, rejection_message=verdict.message)
    return state


def _call(item: ToolApprovalItem) -> Call:
    try:
        found = json.loads(item.arguments or "{}")
    except ValueError:
        found = item.arguments
    return Call(item.name or "a tool", found if isinstance(found, dict) else {"input": found}, item.call_id)


def _edited(value: Any, edited: dict[str | None, dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_edited(one, edited) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _edited(one, edited) for name, one in value.items()}
    if found.get("call_id") in edited and isinstance(found.get("arguments"), str):
        found["arguments"] = json.dumps(edited[found["call_id"]])
    return found
