"""The asynchronous client of an Entente server: the methods of RFC-0021's SDK, and what Entente adds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, TypeVar

import httpx

from .._generated import operations as api
from .._generated import requests
from .._generated.answers import (
    AssignmentBody,
    ChannelBody,
    EmittedMoment,
    EventBody,
    IntentBody,
    JobAccepted,
    JobBody,
    MessageBody,
    Moment,
    SpendReport,
    TurnTaken,
    WhoamiBody,
)
from .._request import Answer, Request
from .._settings import Settings, tls
from ..errors import MessageTimeoutError
from ..signing import SigningKey
from ..worker import Handler, Worker
from . import channels, decisions, jobs
from .channels import Channel, Channels
from .inbox import Inbox
from .leases import ClaimedTask, HeldLease
from .mail import Mailbox
from .spending import Amount, Reservation
from .streams import QUIET, Stream
from .transport import Transport

T = TypeVar("T")

Status = Literal["draft", "active", "blocked", "suspended_awaiting_input", "completed", "abandoned"]


class AsyncEntente:
    """An asynchronous client. Address and key default to ENTENTE_URL and ENTENTE_API_KEY.

    A request whose server is away is repeated for `patience` seconds, under one idempotency key. Close the client with `aclose`, or use it
    as `async with AsyncEntente(...) as client`.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        agent_id: str | None = None,
        *,
        patience: float = 30.0,
        timeout: float = 30.0,
        epoch: int | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings.of(base_url, api_key, agent_id, patience, timeout)
        if epoch is not None:
            settings = settings.under(**{"Entente-Epoch": str(epoch)})
        self._start(Transport(settings, http or _connections()))

    @classmethod
    def of(cls, settings: Settings, http: httpx.AsyncClient | None = None) -> AsyncEntente:
        """Returns a client with the settings of another one, whose connections it shares if they are given."""
        found = object.__new__(cls)
        found._start(Transport(settings, http or _connections()))
        return found

    def _start(self, transport: Transport) -> None:
        self.transport = transport
        self._me: WhoamiBody | None = None

    def under(self, *, lease: str | None = None, claim: str | None = None, epoch: int | None = None) -> AsyncEntente:
        """Returns a client whose writes take effect only while these hold: a lease and a claim as `id; token=number`, the epoch of an
        agent's session. It shares this client's connections."""
        given = {"Entente-Lease": lease, "Entente-Claim": claim, "Entente-Epoch": None if epoch is None else str(epoch)}
        other = object.__new__(type(self))
        other._start(self.transport.under(**{name: value for name, value in given.items() if value is not None}))
        return other

    async def __aenter__(self) -> AsyncEntente:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self.transport.http.aclose()

    # Any operation of the API: `client.call(operations.list_teams())`.

    async def call(self, request: Request[T]) -> T:
        """Sends a request of `entente.operations`, and returns what the answer contains."""
        return await self.transport.call(request)

    async def send(self, request: Request[T]) -> Answer[T]:
        """Sends a request of `entente.operations`, and returns the answer with its headers."""
        return await self.transport.send(request)

    def follow(self, request: Request[Any], last_event_id: str | None = None, *, quiet: float = QUIET) -> Stream:
        """Returns the stream of a request of `entente.operations` whose operation is one."""
        return Stream(self.transport, request, last_event_id, quiet=quiet)

    async def whoami(self) -> WhoamiBody:
        """Returns the key's principal, and the agent that this client acts as."""
        return await self.call(api.whoami())

    async def acting(self) -> str:
        """Returns the name of the agent that this client acts as."""
        if self.transport.settings.agent_id is not None:
            return self.transport.settings.agent_id
        if self._me is None:
            self._me = await self.whoami()
        return self._me.agent_id

    # Intents

    async def create_intent(
        self,
        title: str,
        description: str = "",
        *,
        state: dict[str, Any] | None = None,
        constraints: dict[str, Any] | None = None,
        parent_id: str | None = None,
        status: Status = "active",
        idempotency_key: str | None = None,
    ) -> IntentBody:
        """Creates an intent: a goal that agents work on together."""
        body: requests.NewIntent = {"title": title, "description": description, "status": status}
        if state is not None:
            body["state"] = state
        if constraints is not None:
            body["constraints"] = constraints
        if parent_id is not None:
            body["parent_id"] = parent_id
        return await self.call(api.create_intent(body, idempotency_key=idempotency_key))

    async def get_intent(self, intent_id: str) -> IntentBody:
        """Returns an intent."""
        return await self.call(api.get_intent(intent_id))

    async def update_state(self, intent_id: str, state: dict[str, Any], *, version: int) -> IntentBody:
        """Sets members of an intent's state; ConflictError if it is no longer the version that was read."""
        return await self.call(api.patch_state(intent_id, {"state": state}, if_match=version))

    async def set_status(self, intent_id: str, status: Status, *, version: int, reason: str | None = None) -> IntentBody:
        """Changes an intent's status."""
        body: requests.IntentStatusChange = {"status": status}
        if reason is not None:
            body["reason"] = reason
        return await self.call(api.set_intent_status(intent_id, body, if_match=version))

    async def assign_agent(self, intent_id: str, agent_id: str, role: str | None = None) -> AssignmentBody:
        """Assigns an agent to an intent."""
        body: requests.AssignBody = {"agent_id": agent_id}
        if role is not None:
            body["role"] = role
        return await self.call(api.assign_agent(intent_id, body))

    async def log_event(self, intent_id: str, event_type: str, payload: dict[str, Any], *, idempotency_key: str | None = None) -> EventBody:
        """Appends an event to an intent's log."""
        return await self.call(
            api.append_event(intent_id, {"event_type": event_type, "payload": payload}, idempotency_key=idempotency_key)
        )

    # Channels and messages, with the signatures of RFC-0021

    async def create_channel(
        self,
        intent_id: str,
        name: str,
        members: list[str] | None = None,
        member_policy: Literal["explicit", "intent"] = "intent",
        options: dict[str, Any] | None = None,
    ) -> ChannelBody:
        """Opens a channel on an intent."""
        return await self.call(api.create_channel(intent_id, channels.new_channel(name, members, member_policy, options)))

    async def list_channels(self, intent_id: str) -> list[ChannelBody]:
        """Returns an intent's channels, open ones first."""
        return await self.call(api.list_channels(intent_id))

    async def get_channel(self, channel_id: str) -> ChannelBody:
        """Returns a channel."""
        return await self.call(api.get_channel(channel_id))

    async def close_channel(self, channel_id: str) -> ChannelBody:
        """Closes a channel: nobody can write to it any more."""
        return await self.call(api.change_channel(channel_id, {"status": "closed"}).repeatable())

    async def send_message(
        self,
        channel_id: str,
        sender: str,
        to: str | None = None,
        message_type: Literal["request", "response", "notify", "broadcast"] = "notify",
        payload: Mapping[str, Any] = {},  # noqa: B006 - the RFC's signature; nothing changes it
        expires_at: str | datetime | None = None,
        *,
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> MessageBody:
        """Sends a message. It is stored once it is answered, and once even if the answer was lost."""
        more = {"metadata": metadata} if metadata else {}
        return await channels.send(self.transport, channel_id, sender, to, message_type, payload, expires_at, idempotency_key, **more)

    async def reply_to(
        self, channel_id: str, message_id: str, sender: str, payload: Mapping[str, Any] = {}, *, idempotency_key: str | None = None
    ) -> MessageBody:
        """Answers a request."""
        body: requests.ReplyBody = {"sender": sender, "payload": dict(payload)}
        return await self.call(api.reply_to_message(channel_id, message_id, body, idempotency_key=idempotency_key))

    async def list_messages(
        self, channel_id: str, since: str | None = None, to: str | None = None, *, wait: int | None = None, limit: int | None = None
    ) -> list[MessageBody]:
        """Returns messages after `since`, or else the newest; oldest first. `channel(id).read` also returns the cursor to go on with."""
        return await self.call(api.list_messages(channel_id, since=since, to=to, wait=wait, limit=limit))

    async def get_message(self, channel_id: str, message_id: str) -> MessageBody:
        """Returns a message."""
        return await self.call(api.get_message(channel_id, message_id))

    async def mark_read(self, channel_id: str, message_id: str) -> MessageBody:
        """Says that the acting agent has read a message."""
        return await self.call(api.mark_message_read(channel_id, message_id, {"status": "read"}).repeatable())

    async def ask(self, channel_id: str, sender: str, to: str, payload: Mapping[str, Any], timeout: float = 30) -> MessageBody:
        """Sends a request, and returns the first answer; MessageTimeoutError if there is none in time."""
        request, found = await channels.ask(self.transport, channel_id, sender, to, payload, timeout, 1)
        if not found:
            raise MessageTimeoutError(request, timeout)
        return found[0]

    async def ask_all(
        self, channel_id: str, sender: str, to: str, payload: Mapping[str, Any], timeout: float = 30, *, expect: int | None = None
    ) -> list[MessageBody]:
        """Sends a request, and returns the answers that came in time, or the first `expect` of them."""
        return (await channels.ask(self.transport, channel_id, sender, to, payload, timeout, expect))[1]

    @property
    def channels(self) -> _ChannelsOf:
        """Channels by their names: `await client.channels.open("talk", intent_id=…)`."""
        return _ChannelsOf(self)

    async def channel(self, channel_id: str) -> Channel:
        """Returns a channel to ask, answer and read on, as the acting agent."""
        return Channel(self.transport, await self.acting(), channel_id)

    # What happens: streams, the inbox, turns

    def stream(
        self,
        *,
        intent_id: str | None = None,
        channel_id: str | None = None,
        agent_id: str | None = None,
        last_event_id: str | None = None,
        event_types: str | list[str] | None = None,
    ) -> Stream:
        """Returns a stream of an intent, a channel or an agent, or without either of everything that the caller may see."""
        types = ",".join(event_types) if isinstance(event_types, list) else event_types
        request: Request[Any]
        if intent_id is not None:
            request = api.follow_intent(intent_id, event_types=types)
        elif channel_id is not None:
            request = api.follow_channel(channel_id, event_types=types)
        elif agent_id is not None:
            request = api.follow_agent(agent_id, event_types=types)
        else:
            request = api.follow_all(event_types=types)
        return self.follow(request, last_event_id)

    async def inbox(self, agent_id: str | None = None, *, reader: str | None = None, attention: str | None = None) -> Inbox:
        """Returns the inbox of the acting agent, or of another one. Its first read opens it."""
        return Inbox(self.transport, agent_id or await self.acting(), reader, attention)

    async def turn(self, turn: requests.Turn, *, idempotency_key: str | None = None) -> TurnTaken:
        """Does everything between two thoughts of an agent at once: all of it, or nothing."""
        return await self.call(api.take_turn(turn, idempotency_key=idempotency_key))

    # What may be done: leases, claims, spending, decisions

    def lease(self, intent_id: str, scope: str, *, duration: int = 60, wait: float = 0, renew: bool = True) -> HeldLease:
        """Returns a lease of a part of an intent's state, to hold in an `async with` block. With `wait` it queues for so many seconds."""
        body: dict[str, Any] = {"scope": scope, "duration_seconds": duration}
        return HeldLease(self.transport, intent_id, body, wait, renew, lambda fence: self.under(lease=fence))

    def claim_task(self, task_id: str) -> ClaimedTask:
        """Returns a claim of a task, to hold in an `async with` block."""
        return ClaimedTask(self.transport, task_id, self.transport.settings.agent_id, lambda fence: self.under(claim=fence))

    def reserve(
        self,
        amounts: Mapping[str, Amount],
        *,
        model: str | None = None,
        tool: str | None = None,
        provider: str | None = None,
        intent_id: str | None = None,
        call_id: str | None = None,
        expires_in: int | None = None,
    ) -> Reservation:
        """Returns the most that a call can cost as a reservation, to hold in an `async with` block; refused if a budget has less left."""
        given = {"model": model, "tool": tool, "provider": provider, "intent_id": intent_id, "expires_in": expires_in}
        body: dict[str, Any] = {"reserve": dict(amounts), "call_id": call_id or uuid.uuid4().hex}
        return Reservation(self.transport, body | {name: value for name, value in given.items() if value is not None})

    async def spend(
        self, *, by: str | None = None, scope: str | None = None, since: str | None = None, until: str | None = None
    ) -> SpendReport:
        """Returns what was spent."""
        return await self.call(api.report_spend(by=by, scope=scope, from_=since, until=until))

    async def ask_person(
        self, principal_id: str, question: dict[str, Any], *, idempotency_key: str | None = None, **options: Any
    ) -> EmittedMoment:
        """Asks a person a question of the eight slots, and returns at once; options are `intent_id`, `expires_in` and the others of
        `requests.NewMoment`."""
        return await decisions.ask_person(self.transport, principal_id, question, idempotency_key, options)

    async def wait_for_decision(self, moment_id: str, timeout: float | None = None) -> Moment:
        """Waits until the person has decided, or until nobody can any more; DecisionTimeoutError leaves the question open."""
        return await decisions.wait_for_decision(self.transport, moment_id, timeout)

    async def decide(
        self,
        principal_id: str,
        question: dict[str, Any],
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> str | None:
        """Asks a person, and waits for the answer: an option's label, or the person's own words. None if they refused the question or it
        ended: silence approves nothing."""
        asked = await self.ask_person(principal_id, question, idempotency_key=idempotency_key, **options)
        return decisions.answer(await self.wait_for_decision(asked.id, timeout))

    # Jobs and mail

    async def submit_job(self, agent: str, input: Any = None, *, idempotency_key: str | None = None, **options: Any) -> JobAccepted:
        """Submits a job for an agent's workers; options are those of `requests.JobSubmit`."""
        body: Any = {"agent": agent, "input": input, **options}
        return await self.call(api.submit_job(body, idempotency_key=idempotency_key))

    async def wait_for_job(self, job_id: str, each: Callable[[Any], Any] | None = None) -> JobBody:
        """Waits for a job's end, and returns it; `each` receives every event as it comes."""
        return await jobs.wait_for_job(self.transport, job_id, each)

    async def run_job(self, agent: str, input: Any = None, *, idempotency_key: str | None = None, **options: Any) -> Any:
        """Submits a job, waits for its end, and returns its result; JobError if it failed."""
        made = await self.submit_job(agent, input, idempotency_key=idempotency_key, **options)
        return await jobs.result_of(self.transport, await self.wait_for_job(made.job_id))

    def job_stream(self, job_id: str, last_event_id: str | None = None) -> Stream:
        """Returns a job's events as a stream that ends with the job."""
        return jobs.job_stream(self.transport, job_id, last_event_id)

    def worker(self, agent: str, handler: Handler, *, concurrency: int = 1, name: str | None = None, grace: float = 10.0) -> Worker:
        """Returns a worker that runs an agent's jobs with a function: `await client.worker("reporter@1.0.0", report).serve()`, or `run()`
        where no event loop runs."""
        return Worker(self.transport.settings, agent, handler, concurrency=concurrency, name=name, grace=grace)

    async def mailbox(self, entity: str | None = None, *, key: SigningKey | None = None) -> Mailbox:
        """Returns the mailbox of the acting agent, or of another entity. With a key what it sends is signed."""
        return Mailbox(self.transport, entity or await self.acting(), key)


def _connections() -> httpx.AsyncClient:
    # A client is worth many streams and long polls at once.
    return httpx.AsyncClient(verify=tls(), limits=httpx.Limits(max_connections=None, max_keepalive_connections=50))


class _ChannelsOf:
    """Channels of whoever the client acts as, which the server may have to be asked for."""

    def __init__(self, client: AsyncEntente) -> None:
        self._client = client

    async def open(
        self,
        name: str,
        intent_id: str,
        members: list[str] | None = None,
        member_policy: Literal["explicit", "intent"] = "intent",
        options: dict[str, Any] | None = None,
    ) -> Channel:
        """Returns the intent's open channel of that name, or creates it."""
        made = Channels(self._client.transport, await self._client.acting())
        return await made.open(name, intent_id, members, member_policy, options)
