"""Agents as classes, with the decorators of RFC-0021's SDK.

    @Agent("data-agent-01")
    class DataAgent:
        @on_message(channel="data-clarification")
        async def answer(self, message):
            return {"answer": "v2.3"}

    DataAgent("http://127.0.0.1:8080", "ent_…").run()

The loop reads the agent's inbox, whose position the server keeps: what arrives while no program runs is handled at the next start, and a
program that dies in the middle handles it again. A message's answer carries an idempotency key of the message, so it is sent once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from ._async.channels import Channel
from ._async.client import AsyncEntente
from ._generated import operations as api
from ._generated.answers import Inbox, InboxEntry, InboxPage, IntentBody, MessageBody
from .errors import ConflictError, EntenteError, NotFoundError

log = logging.getLogger("entente")

F = TypeVar("F", bound=Callable[..., Any])
FOR_EVER = float("inf")
# Seconds that one request waits for entries.
LONG_POLL = 25
# How many entries are handled at once. More wait in the inbox.
AT_ONCE = 64
_ENDED = ("completed", "abandoned")


@dataclass(frozen=True)
class _Handles:
    """What a method is called for."""

    what: Literal["assignment", "message", "entry"]
    # The name of the channel, or the kind of the entry.
    only: str | None = None


def on_assignment(method: F) -> F:
    """Marks a method that is called with each intent that the agent is assigned to. A returned dictionary is set in the intent's state."""
    method._entente = _Handles("assignment")  # type: ignore[attr-defined]
    return method


def on_message(channel: str | None = None) -> Callable[[F], F]:
    """Marks a method that is called with each message to the agent, on the channel of that name or on any. What it returns for a request
    is sent as the answer."""

    def marked(method: F) -> F:
        method._entente = _Handles("message", channel)  # type: ignore[attr-defined]
        return method

    return marked


def on_entry(kind: Literal["mail", "job", "decision", "task"] | None = None) -> Callable[[F], F]:
    """Marks a method that is called with every other entry of the inbox, or with those of one kind: envelopes, ends of jobs, decisions and
    tasks."""

    def marked(method: F) -> F:
        method._entente = _Handles("entry", kind)  # type: ignore[attr-defined]
        return method

    return marked


class ChannelsOfAgent:
    """The agent's channels: `await self.channels.open("progress", intent_id=intent.id)`."""

    def __init__(self, agent: BaseAgent) -> None:
        self._agent = agent

    async def open(
        self,
        name: str,
        intent_id: str,
        members: list[str] | None = None,
        member_policy: Literal["explicit", "intent"] = "intent",
        options: dict[str, Any] | None = None,
    ) -> Channel:
        """Returns the intent's open channel of that name, or creates it."""
        return await self._agent.client.channels.open(name, intent_id, members, member_policy, options)


class BaseAgent:
    """What `@Agent` adds to a class. Type checkers see it if the class names it as its base."""

    agent_id: ClassVar[str] = ""
    _options: ClassVar[dict[str, Any]] = {}

    def __init__(self, base_url: str | None = None, api_key: str | None = None, *, reader: str = "agent", grace: float = 10.0) -> None:
        self._address = (base_url, api_key)
        self._client: AsyncEntente | None = None
        self._reader = reader
        self._grace = grace
        self._names: dict[str, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.channels = ChannelsOfAgent(self)

    @property
    def client(self) -> AsyncEntente:
        """The agent's client, while it runs."""
        if self._client is None:
            raise EntenteError("The agent does not run yet: its client exists within run() and serve().")
        return self._client

    def run(self) -> None:
        """Serves until it is stopped, by `stop`, SIGINT or SIGTERM; for programs without an event loop."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            # Only the main thread hears signals.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.serve()

    def stop(self) -> None:
        """Stops it, from any thread, once what it handles has ended, or after `grace` seconds."""
        if self._loop is not None and self._stopping is not None:
            # One that has ended needs no stop.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def serve(self) -> None:
        """Serves until it is stopped."""
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        url, key = self._address
        async with AsyncEntente(url, key, self.agent_id, patience=FOR_EVER) as client:
            self._client = client
            await self._register()
            inbox = _Inbox(client, self.agent_id, self._reader, self._handle, self._grace)
            stopped = asyncio.create_task(self._stopping.wait())
            reading = asyncio.create_task(inbox.read())
            try:
                await asyncio.wait({stopped, reading}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    reading.result()
            finally:
                for task in (stopped, reading):
                    task.cancel()
                await asyncio.gather(stopped, reading, return_exceptions=True)
                await inbox.finish()
                self._client = None

    async def _register(self) -> None:
        """Registers the agent, if the class says how it can be addressed."""
        if self._options:
            body: Any = {"agent_id": self.agent_id, **self._options}
            with contextlib.suppress(ConflictError):
                await self.client.call(api.register_agent(body).repeatable())

    def _handlers(self, what: str) -> list[tuple[str | None, Callable[..., Any]]]:
        found = []
        for name in dir(type(self)):
            handles = getattr(getattr(type(self), name, None), "_entente", None)
            if isinstance(handles, _Handles) and handles.what == what:
                found.append((handles.only, getattr(self, name)))
        return found

    async def _handle(self, entry: InboxEntry) -> None:
        if entry.gone or entry.withheld or entry.reference is None:
            return
        if entry.kind == "message" and entry.message is not None:
            await self._message(entry.message)
        elif entry.kind == "task" and entry.what == "intent_assigned":
            await self._assigned(entry.reference)
        else:
            for only, handler in self._handlers("entry"):
                if only in (None, entry.kind):
                    await _called(handler, entry)

    async def _assigned(self, intent_id: str) -> None:
        try:
            intent = await self.client.get_intent(intent_id)
        except NotFoundError:
            return
        if intent.status in _ENDED:
            return
        for _, handler in self._handlers("assignment"):
            outcome = await _called(handler, intent)
            if isinstance(outcome, dict) and outcome:
                await self._set_state(intent, outcome)

    async def _set_state(self, intent: IntentBody, state: dict[str, Any]) -> None:
        while True:
            try:
                await self.client.update_state(intent.id, state, version=intent.version)
                return
            except ConflictError as changed:
                if changed.code != "version_conflict":
                    raise
                intent = await self.client.get_intent(intent.id)

    async def _message(self, message: MessageBody) -> None:
        if message.sender == self.agent_id or (message.correlation_id or "") in self.client.transport.asked:
            return
        answer = None
        for only, handler in self._handlers("message"):
            if only is None or only == await self._name_of(message.channel_id):
                outcome = await _called(handler, message)
                answer = outcome if answer is None else answer
        if answer is not None and message.message_type == "request":
            payload = answer if isinstance(answer, dict) else {"answer": answer}
            # Agents may share a key of the server, and its idempotency keys with it.
            key = f"answer-{message.id}-{self.agent_id}"
            try:
                await self.client.reply_to(message.channel_id, message.id, self.agent_id, payload, idempotency_key=key)
            except ConflictError as refused:
                # An earlier run of this program sent its answer, and died before it could say so.
                if refused.code != "idempotency_mismatch":
                    raise

    async def _name_of(self, channel_id: str) -> str:
        if channel_id not in self._names:
            self._names[channel_id] = (await self.client.get_channel(channel_id)).name
        return self._names[channel_id]


async def _called(handler: Callable[..., Any], about: Any) -> Any:
    """Calls a method. One that is not asynchronous runs in a thread, so that it holds up no other. Its error is logged; the loop goes on."""
    try:
        if inspect.iscoroutinefunction(handler):
            return await handler(about)
        return await asyncio.to_thread(handler, about)
    except Exception:
        log.exception("%s failed", getattr(handler, "__qualname__", handler))
        return None


class _Inbox:
    """Reads an inbox, handles its entries at once, and marks those seen before which all are handled."""

    def __init__(
        self, client: AsyncEntente, agent_id: str, reader: str, handle: Callable[[InboxEntry], Any], grace: float
    ) -> None:
        self._client, self._agent_id, self._reader, self._handle, self._grace = client, agent_id, reader, handle, grace
        # The entries that are being handled, and the places up to which everything is, once they are.
        self._open: dict[int, asyncio.Task[None]] = {}
        self._first: set[asyncio.Task[None]] = set()
        self._place = 0
        self._marked = -1
        self._free = asyncio.Semaphore(AT_ONCE)

    async def read(self) -> None:
        """Reads for ever."""
        reader, since = await self._begin(), None
        while True:
            page = await self._page(reader, since)
            since = page.next
            if page.missed:
                log.warning("%d entries of the inbox of %s expired or were evicted before they were read", page.missed, self._agent_id)
            for entry in page.entries:
                # One that rang again is read again, although it is being handled.
                if entry.place > self._place:
                    await self._free.acquire()
                    self._place = entry.place
                    self._open[entry.place] = asyncio.create_task(self._one(entry))
            self._place = max(self._place, page.next_place)
            await self._mark()

    async def _page(self, reader: str, since: str | None) -> InboxPage:
        request = api.read_inbox(self._agent_id, reader=reader, since=since, expand=True, wait=LONG_POLL)
        return await self._client.call(request)

    async def _begin(self) -> str:
        """Returns the name to read under. Before the first start the inbox knew nothing, so the agent's open assignments are handled
        first. The reader exists once they are: a program that dies before starts with them again."""
        if self._reader in {one.reader for one in (await self._inbox()).readers}:
            return self._reader
        before = None
        while True:
            page = await self._client.call(api.list_intents(agent_id=self._agent_id, before=before, limit=100))
            for intent in page.intents:
                if intent.status not in _ENDED:
                    entry = InboxEntry({"kind": "task", "what": "intent_assigned", "reference": intent.id, "place": 0})
                    task = asyncio.create_task(self._one(entry, counts=False))
                    self._first.add(task)
            if not page.intents or len(page.intents) < 100:
                break
            before = page.intents[-1].id
        for task in list(self._first):
            task.add_done_callback(self._handled_first)
        return f"{self._reader}.first"

    def _handled_first(self, task: asyncio.Task[None]) -> None:
        # One that was cut off keeps the reader from being made.
        if not task.cancelled():
            self._first.discard(task)

    async def _inbox(self) -> Inbox:
        try:
            return await self._client.call(api.get_inbox(self._agent_id))
        except NotFoundError:
            return await self._client.call(api.put_inbox(self._agent_id, {}))

    async def _one(self, entry: InboxEntry, counts: bool = True) -> None:
        """Handles an entry. One whose handling was cut off stays open, so it is not marked, and comes again at the next start."""
        try:
            await self._handle(entry)
        except EntenteError as refused:
            log.error("entry %s of the inbox of %s: %s", entry.reference, self._agent_id, refused)
        except Exception:
            # An answer that is no JSON, say. It would be none the next time either, and nothing behind it would be handled.
            log.exception("entry %s of the inbox of %s", entry.reference, self._agent_id)
        if counts:
            self._free.release()
            self._open.pop(entry.place, None)
        await self._mark()

    async def _mark(self) -> None:
        """Marks everything before the first entry that is still being handled."""
        place = min(self._open, default=self._place + 1) - 1
        if self._first or place <= self._marked:
            return
        self._marked = place
        body: Any = {"place": place, "reader": self._reader}
        await self._client.call(api.mark_inbox_seen(self._agent_id, body).repeatable())

    async def finish(self) -> None:
        """Waits for what is being handled, and marks what was."""
        running = [*self._open.values(), *self._first]
        if running:
            await asyncio.wait(running, timeout=self._grace)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with contextlib.suppress(EntenteError, asyncio.TimeoutError):
            await asyncio.wait_for(self._mark(), self._grace + 1)


C = TypeVar("C", bound=type)


def Agent(  # noqa: N802 - the RFC writes it like a class
    agent_id: str,
    *,
    role_id: str | None = None,
    capabilities: list[str] | None = None,
    name: str | None = None,
) -> Callable[[C], C]:
    """Makes a class an agent. With a role, capabilities or a name the agent is registered when it starts."""
    given = {"role_id": role_id, "capabilities": capabilities, "name": name}
    options = {member: value for member, value in given.items() if value is not None}

    def made(cls: C) -> C:
        bases: tuple[type, ...] = (cls,) if issubclass(cls, BaseAgent) else (cls, BaseAgent)
        own = cls.__init__ if cls.__init__ not in (object.__init__, BaseAgent.__init__) else None  # type: ignore[misc]

        def __init__(self: Any, base_url: str | None = None, api_key: str | None = None, **more: Any) -> None:
            BaseAgent.__init__(self, base_url, api_key, **more)
            if own is not None:
                own(self)

        members = {"agent_id": agent_id, "_options": options, "__init__": __init__}
        members |= {"__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        return type(cls.__name__, bases, members)  # type: ignore[return-value]

    return made
