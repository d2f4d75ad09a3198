"""LangGraph: interrupts are answered by a person, and checkpoints are kept in Entente.

    graph = builder.compile(checkpointer=EntenteSaver())
    result = invoke(graph, {"topic": "Q1"}, {"configurable": {"thread_id": "q1"}}, person="human.ada")

An interrupt's value may be a text, a dictionary with `question` and `options`, a question of the eight slots, or a request of LangChain's
HumanInTheLoopMiddleware, in both of its modes. The first three get the chosen label or the person's own words, as a text; a refused question
`{"refused": objection}`, and one that ended `{"ended": "expired"}` or `{"ended": "withdrawn"}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt

from .. import _approvals
from .._approvals import Call, Verdict
from .._generated.answers import MemoryEntry
from .._sync.client import Entente
from ..errors import EntenteError
from .person import Person, of
from .store import Store


def invoke(graph: Any, input: Any, config: Any, *, person: Person | str, **options: Any) -> Any:
    """Does what `graph.invoke` does, and puts every interrupt to a person until there is none. A thread that is in the middle of its work,
    because the program was killed, goes on there; `input` begins the next turn of one that is not."""
    who = of(person, _thread(config))
    state = graph.get_state(config)
    result = None
    if not state.interrupts or _dead_end(state.interrupts):
        result = graph.invoke(None if state.next else input, config, **options)
    while pending := graph.get_state(config).interrupts:
        with ThreadPoolExecutor(len(pending)) as pool:
            answers = list(pool.map(lambda one: _answered(one, who), pending))
        # One at a time: of several answers at once, a bad one would leave open whether the others have taken effect.
        for one, answer in zip(pending, answers, strict=True):
            try:
                result = graph.invoke(Command(resume={one.id: answer}), config, **options)
            except ValueError as bad:
                result = graph.invoke(Command(resume={one.id: _unfit(one, bad)}), config, **options)
    return result


async def ainvoke(graph: Any, input: Any, config: Any, *, person: Person | str, **options: Any) -> Any:
    """Does what `graph.ainvoke` does, as `invoke` does."""
    who = of(person, _thread(config))
    state = await graph.aget_state(config)
    result = None
    if not state.interrupts or _dead_end(state.interrupts):
        result = await graph.ainvoke(None if state.next else input, config, **options)
    while pending := (await graph.aget_state(config)).interrupts:
        answers = await asyncio.gather(*(_aanswered(one, who) for one in pending))
        # One at a time: of several answers at once, a bad one would leave open whether the others have taken effect.
        for one, answer in zip(pending, answers, strict=True):
            try:
                result = await graph.ainvoke(Command(resume={one.id: answer}), config, **options)
            except ValueError as bad:
                result = await graph.ainvoke(Command(resume={one.id: _unfit(one, bad)}), config, **options)
    return result


def _thread(config: Any) -> str:
    return str(config["configurable"]["thread_id"])


def _dead_end(interrupts: Sequence[Interrupt]) -> bool:
    """Whether one of these takes no no: the graph may take one by now, and says so when it comes there again."""
    return any(not {"reject", "respond"} & set(allowed) for one in interrupts for _, allowed in _calls(one))


def _unfit(interrupt: Interrupt, bad: ValueError) -> dict[str, Any]:
    """Returns the answer in place of one that the interrupt's schema does not take: edited arguments that do not fit run nothing."""
    calls = _calls(interrupt)
    if not is_invalid_resume(bad) or not calls:
        raise bad
    return _declined(*calls[0], f"It did not run: the arguments that a person gave do not fit. {bad}")


def _calls(interrupt: Interrupt) -> list[tuple[Call, list[str]]]:
    """Returns the calls of tools that an interrupt is about, with the decisions that it takes."""
    value = interrupt.value
    if not isinstance(value, dict):
        return []
    if value.get("type") == "tool_approval":
        return [(Call(value["name"], value["args"], interrupt.id), _allowed(interrupt.response_schema))]
    configs = {one["action_name"]: one["allowed_decisions"] for one in value.get("review_configs", [])}
    return [
        (Call(one["name"], one["args"], f"{interrupt.id}-{number}", one.get("description", "")), configs[one["name"]])
        for number, one in enumerate(value.get("action_requests", []))
    ]


def _allowed(schema: Any) -> list[str]:
    """Returns the decisions that a schema takes: each is an object whose `type` is its name."""
    found: list[str] = []
    for branch in schema.get("oneOf") or schema.get("anyOf") or [schema]:
        reference = branch.get("$ref", "")
        of_it = schema["$defs"][reference.rpartition("/")[2]] if reference else branch
        kind = of_it["properties"]["type"]
        found += [kind["const"]] if "const" in kind else kind["enum"]
    return found


def _question_name(interrupt: Interrupt) -> str:
    """Returns the name of a question: an answer is to what was asked, not to an id alone."""
    return f"{interrupt.id}-{_approvals.digest(_approvals.plain(interrupt.value))}"


def _answered(interrupt: Interrupt, who: Person) -> Any:
    if calls := _calls(interrupt):
        with ThreadPoolExecutor(len(calls)) as pool:
            return _decisions(interrupt, calls, list(pool.map(lambda one: who.approve(one[0]), calls)))
    question = _question(interrupt.value)
    return _approvals.words(who.decide(question, name=_question_name(interrupt)), question)


async def _aanswered(interrupt: Interrupt, who: Person) -> Any:
    if calls := _calls(interrupt):
        return _decisions(interrupt, calls, await asyncio.gather(*(who.aapprove(one) for one, _ in calls)))
    question = _question(interrupt.value)
    return _approvals.words(await who.adecide(question, name=_question_name(interrupt)), question)


def _decisions(interrupt: Interrupt, calls: list[tuple[Call, list[str]]], verdicts: Sequence[Verdict]) -> Any:
    found = [_decision(call, allowed, verdict) for (call, allowed), verdict in zip(calls, verdicts, strict=True)]
    return found[0] if interrupt.value.get("type") == "tool_approval" else {"decisions": found}


def _decision(call: Call, allowed: list[str], verdict: Verdict) -> dict[str, Any]:
    """Returns a decision that the graph takes: any other would be kept, and fail its thread each time it goes on."""
    if verdict.kind == "approve" and "approve" in allowed:
        return {"type": "approve"}
    if verdict.approved and "edit" in allowed:
        # An approval is an edit that changes nothing.
        return {"type": "edit", "edited_action": {"name": call.tool, "args": verdict.arguments}}
    why = "its arguments may not be edited" if verdict.kind == "edit" else "nobody may approve it"
    return _declined(call, allowed, verdict.message or f"{call.tool} did not run: {why}.")


def _declined(call: Call, allowed: list[str], message: str) -> dict[str, Any]:
    for kind in ("reject", "respond"):
        if kind in allowed:
            return {"type": kind, "message": message}
    raise EntenteError(
        f"{message} The graph takes no such decision on {call.tool}, only {' or '.join(allowed)}, so its thread waits. "
        "Add `reject` to its `allowed_decisions`, and invoke it again: the answer stands."
    )


def _question(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return _approvals.open_question(str(value), ("Yes", "No"), "The graph goes on with this answer.")
    if {"synopsis", "question"} <= value.keys():
        return value
    labels = [str(one) for one in value.get("options", ("Yes", "No"))]
    facts = {name: one for name, one in value.items() if name not in ("question", "options")}
    stem = str(value.get("question") or "How should the graph go on?")
    return _approvals.open_question(stem, labels, "The graph goes on with this answer.", facts)


class EntenteSaver(BaseCheckpointSaver[int]):
    """Keeps checkpoints in the memory of an agent: each thread has a namespace, with its latest thousand checkpoints and writes."""

    def __init__(self, client: Entente | None = None) -> None:
        super().__init__()
        self.client = client or Entente()

    def _store(self, thread: str) -> Store:
        return Store(f"langgraph {thread}", self.client)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Stores a checkpoint."""
        thread, space, parent = _place(config)
        kind, value = self.serde.dumps_typed((checkpoint, get_checkpoint_metadata(config, metadata)))
        more = {"kind": kind, "parent": parent, "space": space, "id": checkpoint["id"]}
        tags = [f"checkpoint {_approvals.digest(space)}"]
        self._store(thread).put(_name(space, checkpoint['id']), value, tags=tags, more=more)
        return _config(thread, space, checkpoint["id"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Stores what a task has written since a checkpoint: once, except what may happen to a task again."""
        thread, space, checkpoint = _place(config)
        usual = [write for write in writes if write[0] not in WRITES_IDX_MAP]
        parts = [("", usual)] if usual else []
        parts += [(channel, [(channel, value)]) for channel, value in writes if channel in WRITES_IDX_MAP]
        for channel, part in parts:
            kind, value = self.serde.dumps_typed(part)
            more = {"kind": kind, "task": task_id, "path": task_path, "index": WRITES_IDX_MAP.get(channel, 0)}
            key = f"{_name(space, checkpoint or '')}/{task_id}{channel}"
            # Where it is not stored, this task has already written: what it wrote first stands.
            self._store(thread).put(key, value, more=more, replace=bool(channel))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns the checkpoint that a configuration names, or the latest of its thread."""
        thread, space, checkpoint = _place(config)
        store = self._store(thread)
        if checkpoint is None:
            found = store.entries(tags=f"checkpoint {_approvals.digest(space)}", limit=1)
        else:
            found = [one for one in [store.find(_name(space, checkpoint))] if one is not None]
        return self._tuple(store, thread, found[0]) if found else None

    def _tuple(self, store: Store, thread: str, entry: MemoryEntry) -> CheckpointTuple:
        space, checkpoint_id, parent = entry.value["space"], entry.value["id"], entry.value["parent"]
        checkpoint, metadata = self.serde.loads_typed((entry.value["kind"], store.value(entry)))
        entries = store.entries(prefix=f"{entry.key}/")
        entries.sort(key=lambda one: (one.value["path"], one.value["task"], one.value["index"]))
        writes = [
            (one.value["task"], channel, value)
            for one in entries
            for channel, value in self.serde.loads_typed((one.value["kind"], store.value(one)))
        ]
        return CheckpointTuple(
            _config(thread, space, checkpoint_id), checkpoint, metadata, _config(thread, space, parent) if parent else None, writes
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Lists the checkpoints of a thread, latest first."""
        if config is None:
            raise ValueError("Name a thread: an agent's memory does not tell which there are.")
        thread, _, wanted = _place(config)
        space = config["configurable"].get("checkpoint_ns")
        store, until = self._store(thread), get_checkpoint_id(before) if before else None
        entries = [one for one in store.entries() if "id" in one.value and space in (None, one.value["space"])]
        for entry in sorted(entries, key=lambda one: str(one.value["id"]), reverse=True):
            if wanted not in (None, entry.value["id"]) or (until is not None and entry.value["id"] >= until):
                continue
            if limit is not None and limit <= 0:
                return
            found = self._tuple(store, thread, entry)
            if all(found.metadata.get(name) == value for name, value in (filter or {}).items()):
                limit = None if limit is None else limit - 1
                yield found

    def delete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints of a thread."""
        self._store(thread_id).delete()

    # The same in the background of an event loop: each is a few short requests.

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Stores a checkpoint."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Stores what a task has written since a checkpoint."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns the checkpoint that a configuration names, or the latest of its thread."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Lists the checkpoints of a thread, latest first."""
        for one in await asyncio.to_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)]):
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints of a thread."""
        await asyncio.to_thread(self.delete_thread, thread_id)


def _place(config: RunnableConfig) -> tuple[str, str, str | None]:
    where = config["configurable"]
    return str(where["thread_id"]), where.get("checkpoint_ns", ""), where.get("checkpoint_id")


def _name(space: str, checkpoint_id: str) -> str:
    # The graph's own checkpoints need no word for where they are.
    return f"{_approvals.digest(space)}/{checkpoint_id}" if space else checkpoint_id


def _config(thread: str, space: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": space, "checkpoint_id": checkpoint_id}}
