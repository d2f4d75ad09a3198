"""Channels of the asynchronous client: questions and answers, notes, and what was said."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from .._generated import operations as api
from .._generated.answers import ChannelBody, MessageBody
from .._generated.requests import SendBody
from .._request import Answer
from ..errors import ConflictError, MessageTimeoutError
from .streams import Stream
from .transport import Transport

# Seconds that one request waits for messages.
LONG_POLL = 25


async def send(
    transport: Transport,
    channel_id: str,
    sender: str,
    to: str | None,
    message_type: str,
    payload: Mapping[str, Any],
    expires_at: str | datetime | None = None,
    idempotency_key: str | None = None,
    **more: Any,
) -> MessageBody:
    """Sends a message, once."""
    body: SendBody = {"sender": sender, "message_type": message_type, "payload": dict(payload)}
    if to is not None:
        body["to"] = to
    if expires_at is not None:
        body["expires_at"] = expires_at.isoformat() if isinstance(expires_at, datetime) else expires_at
    body.update(more)  # type: ignore[typeddict-item]
    return await transport.call(api.send_message(channel_id, body, idempotency_key=idempotency_key))


async def ask(
    transport: Transport,
    channel_id: str,
    sender: str,
    to: str,
    payload: Mapping[str, Any],
    timeout: float,
    enough: int | None,
    **more: Any,
) -> tuple[MessageBody, list[MessageBody]]:
    """Sends a request, and returns it with the answers that came in time: all, or `enough`.

    The request is sent with an idempotency key, and the answers are read from its position on. So neither a lost answer of the server nor
    its restart asks twice or misses an answer, which `POST …/ask` could not promise.
    """
    # By the server's clock, whose `Date` has no fractions of a second.
    end = datetime.fromtimestamp(await transport.now(), timezone.utc) + timedelta(seconds=timeout + 1)
    request = await send(transport, channel_id, sender, to, "request", payload, end, **more)
    transport.awaits(request.id)
    until, since = time.monotonic() + timeout, str(request.id)
    found: list[MessageBody] = []
    while (enough is None or len(found) < enough) and (left := until - time.monotonic()) > 0:
        wait = max(1, min(LONG_POLL, int(left)))
        page = await transport.send(api.list_messages(channel_id, since=since, to=sender, wait=wait), patience=left)
        since = page.cursor or since
        found += [one for one in page.value if one.correlation_id == request.id and one.message_type == "response"]
    return request, found


class Channel:
    """A channel, as the client's agent uses it."""

    def __init__(self, transport: Transport, sender: str, channel_id: str, body: ChannelBody | None = None) -> None:
        self._transport = transport
        self._sender = sender
        self.id = channel_id
        # The channel as it was when it was opened; None if only its id is known.
        self.body = body

    @property
    def name(self) -> str | None:
        """The channel's name, if it is known."""
        return self.body.name if self.body else None

    @property
    def intent_id(self) -> str | None:
        """The channel's intent, if it is known."""
        return self.body.intent_id if self.body else None

    async def ask(self, to: str, payload: Mapping[str, Any], timeout: float = 30, *, metadata: dict[str, Any] | None = None) -> MessageBody:
        """Asks an agent or a role, and returns the first answer; MessageTimeoutError if there is none in time."""
        more = {"metadata": metadata} if metadata else {}
        request, found = await ask(self._transport, self.id, self._sender, to, payload, timeout, 1, **more)
        if not found:
            raise MessageTimeoutError(request, timeout)
        return found[0]

    async def ask_all(
        self, to: str, payload: Mapping[str, Any], timeout: float = 30, *, expect: int | None = None, metadata: dict[str, Any] | None = None
    ) -> list[MessageBody]:
        """Asks everybody who is addressed, and returns the answers that came in time, or the first `expect` of them."""
        more = {"metadata": metadata} if metadata else {}
        return (await ask(self._transport, self.id, self._sender, to, payload, timeout, expect, **more))[1]

    async def send(
        self,
        payload: Mapping[str, Any],
        *,
        to: str | None = None,
        message_type: Literal["request", "response", "notify", "broadcast"] = "notify",
        expires_at: str | datetime | None = None,
        metadata: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> MessageBody:
        """Sends a message."""
        more = {"metadata": metadata} if metadata else {}
        return await send(self._transport, self.id, self._sender, to, message_type, payload, expires_at, idempotency_key, **more)

    async def notify(self, to: str | None, payload: Mapping[str, Any], **more: Any) -> MessageBody:
        """Tells an agent, a role, or with None everybody; nobody has to answer."""
        return await self.send(payload, to=to, message_type="notify", **more)

    async def broadcast(self, payload: Mapping[str, Any], **more: Any) -> MessageBody:
        """Tells all members."""
        return await self.send(payload, to="*", message_type="broadcast", **more)

    async def reply(self, message: MessageBody | str, payload: Mapping[str, Any], *, idempotency_key: str | None = None) -> MessageBody:
        """Answers a request."""
        found = message if isinstance(message, str) else message.id
        request = api.reply_to_message(
            self.id, found, {"sender": self._sender, "payload": dict(payload)}, idempotency_key=idempotency_key
        )
        return await self._transport.call(request)

    async def read(
        self, since: str | None = None, *, to: str | None = None, wait: int = 0, limit: int | None = None
    ) -> Answer[list[MessageBody]]:
        """Returns a page of messages: `value`, the `cursor` to continue with as `since`, and how many were `missed`. With `wait` it waits
        up to that many seconds, 120 at most, for a first message."""
        return await self._transport.send(api.list_messages(self.id, since=since, to=to, wait=wait or None, limit=limit))

    async def messages(self, since: str | None = None, *, to: str | None = None) -> list[MessageBody]:
        """Returns all stored messages after `since`, or the newest 1,000."""
        page = await self.read(since, to=to)
        found = list(page.value)
        while since is not None and page.has_more and page.cursor:
            page = await self.read(page.cursor, to=to)
            found += page.value
        return found

    def stream(self, last_event_id: str | None = None, *, since: str | None = None) -> Stream:
        """Returns the channel's messages as a stream, from now on, or after an event, a message or a cursor."""
        return Stream(self._transport, api.follow_channel(self.id, since=since), last_event_id)

    async def close(self) -> ChannelBody:
        """Closes the channel: nobody can write to it any more."""
        self.body = await self._transport.call(api.change_channel(self.id, {"status": "closed"}).repeatable())
        return self.body


class Channels:
    """The channels of an agent."""

    def __init__(self, transport: Transport, sender: str) -> None:
        self._transport = transport
        self._sender = sender

    async def open(
        self,
        name: str,
        intent_id: str,
        members: list[str] | None = None,
        member_policy: Literal["explicit", "intent"] = "intent",
        options: dict[str, Any] | None = None,
    ) -> Channel:
        """Returns the intent's open channel of that name. If there is none it is created, with the other arguments."""
        while True:
            if (found := await self._named(intent_id, name)) is not None:
                return Channel(self._transport, self._sender, found.id, found)
            body = new_channel(name, members, member_policy, options)
            try:
                made = await self._transport.call(api.create_channel(intent_id, body))
            except ConflictError as other:
                if other.code != "duplicate_name":
                    raise
                continue  # another agent was faster
            return Channel(self._transport, self._sender, made.id, made)

    async def _named(self, intent_id: str, name: str) -> ChannelBody | None:
        offset = 0
        while page := await self._transport.call(api.list_channels(intent_id, status="open", limit=500, offset=offset)):
            for one in page:
                if one.name == name:
                    return one
            offset += len(page)
        return None


def new_channel(name: str, members: list[str] | None, member_policy: Literal["explicit", "intent"], options: dict[str, Any] | None) -> Any:
    """Returns the body that creates a channel."""
    body: dict[str, Any] = {"name": name, "member_policy": member_policy}
    if members:
        body["members"] = members
    if options:
        body["options"] = options
    return body
