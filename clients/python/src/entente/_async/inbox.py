"""The inbox of an agent in the asynchronous client: what reached it, with a position that the server keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .._generated import operations as api
from .._generated.answers import Inbox as InboxState
from .._generated.answers import InboxEntry, InboxPage, InboxReader
from ..errors import ConnectionLostError
from .streams import Stream
from .transport import Transport

# Seconds that one request waits for entries.
LONG_POLL = 25


class Inbox:
    """An inbox, as one of its readers sees it."""

    def __init__(self, transport: Transport, agent_id: str, reader: str | None = None, attention: str | None = None) -> None:
        self._transport = transport
        self.agent_id = agent_id
        self.reader = reader
        self.attention = attention
        # How many entries expired or were evicted before this object could read them.
        self.missed = 0
        self._from: str | None = None

    async def read(self, *, wait: int = 0, since: str | None = None, limit: int | None = None, expand: bool | None = None) -> InboxPage:
        """Returns the entries after the reader's position, or after `since`. With `wait` it waits up to that many seconds, 120 at most. The
        position stays until they are marked."""
        request = api.read_inbox(
            self.agent_id, reader=self.reader, attention=self.attention, since=since, expand=expand, limit=limit, wait=wait or None
        )
        return await self._transport.call(request)

    async def mark(self, page: InboxPage | int) -> InboxReader:
        """Moves the reader's position behind a page, or to a place."""
        place = page if isinstance(page, int) else page.next_place
        body: dict[str, object] = {"place": place}
        if self.reader is not None:
            body["reader"] = self.reader
        return await self._transport.call(api.mark_inbox_seen(self.agent_id, body).repeatable())  # type: ignore[arg-type]

    async def state(self) -> InboxState:
        """Returns the inbox's settings, its readers and its size."""
        return await self._transport.call(api.get_inbox(self.agent_id))

    async def entries(self) -> AsyncIterator[InboxEntry]:
        """Yields every entry as it comes, those of the level `digest` too, and marks it when the next one is asked for. A program that dies
        in between reads it again, so nothing is missed."""
        while True:
            try:
                page = await self.read(wait=LONG_POLL, expand=True)
            except ConnectionLostError:
                continue  # after all the patience of the client; the position is the server's
            if page.from_ != self._from:
                self.missed += page.missed
                self._from = page.from_
            for entry in page.entries:
                yield entry
                # An entry that rang again has a place that was marked before.
                await self.mark(entry.place)
            if page.next_place > (page.entries[-1].place if page.entries else 0) and page.next_place > page.seen:
                await self.mark(page)

    def follow(self, last_event_id: str | None = None) -> Stream:
        """Returns the inbox as a stream: `entry` for each entry, `ring` for one that rang again. Following marks nothing."""
        request = api.follow_inbox(self.agent_id, reader=self.reader, attention=self.attention)
        return Stream(self._transport, request, last_event_id)
