"""An asynchronous stream of events, which survives broken connections: no event is left out, and none comes twice."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from types import TracebackType
from typing import Any

import httpx

from .. import _retries, _sse
from .._request import Request
from .._sse import Event
from ..errors import ApiError, ConnectionLostError
from . import waiting
from .transport import Transport

log = logging.getLogger("entente")

# The server says something every `ENTENTE_PING_SECONDS`, at most five minutes. After a longer silence the connection is dead.
QUIET = 320.0


class Stream:
    """A stream: `async with client.stream(...) as stream`, then `async for event in stream`.

    Entering returns once the server follows, so everything that happens afterwards arrives. `last_event_id` is the position behind the
    event that was returned last; a stream that is opened with it goes on there.
    """

    def __init__(
        self, transport: Transport, request: Request[Any], last_event_id: str | None = None, *, ends: bool = False, quiet: float = QUIET
    ) -> None:
        self._transport = transport
        self._request = request
        self._ends = ends
        self._quiet = quiet
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._decoder = _sse.Decoder()
        self._frames: deque[_sse.Frame] = deque()
        # The position behind the last complete frame, from which a new connection goes on.
        self._reached = last_event_id
        self._missed = 0
        self.last_event_id = last_event_id
        # How many messages were evicted or expired before this stream could show them.
        self.missed = 0

    async def __aenter__(self) -> Stream:
        await self._open(self._transport.settings.patience)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection."""
        if self._response is not None:
            response, self._response, self._chunks = self._response, None, None
            await response.aclose()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Event:
        while True:
            while self._frames:
                frame = self._frames.popleft()
                self._count(frame.missed)
                if frame.data:
                    missed, self._missed = self._missed, 0
                    event = _sse.event(frame, missed, self.last_event_id or "")
                    self.last_event_id = event.id
                    return event
                self.last_event_id = frame.id if frame.id is not None else self.last_event_id
            if self._chunks is None:
                await self._open()
            elif not await self._read():
                if self._ends and self._response is not None:
                    raise StopAsyncIteration
                await self.aclose()
                await waiting.sleep(_retries.FIRST_PAUSE)

    def _count(self, missed: int) -> None:
        self._missed += missed
        self.missed += missed

    async def _open(self, patience: float = math.inf) -> None:
        """Connects, and waits until the server says that it follows; tries again for as long as the server is away. Only the first
        connection has a limit: where there is no server, a program should learn of it."""
        attempt, until = 0, time.monotonic() + patience
        while True:
            await self.aclose()
            asked: float | None = None
            cause: Exception = EOFError("the stream ended before it began")
            try:
                request = self._request
                if self._reached is not None:
                    request = replace(request, headers={**request.headers, "Last-Event-ID": self._reached})
                self._response = await self._transport.open(request, self._quiet)
                self._decoder = _sse.Decoder()
                self._chunks = self._response.aiter_bytes()
                # Only a stream that resumes has the header.
                self._count(int(self._response.headers.get("entente-missed") or 0))
                if self._frames or await self._read() or self._ends:
                    return
            except httpx.TransportError as broken:
                cause = broken
            except ApiError as refused:
                if not _retries.passing(refused.status, may_repeat=True):
                    raise
                asked, cause = refused.retry_after, refused
            pause = _retries.pause(attempt, asked, until - time.monotonic())
            if pause is None:
                raise ConnectionLostError(self._request.operation, cause, False) from cause
            attempt += 1
            if attempt == 8:
                log.warning("the stream of %s is away: %s; it is opened again", self._request.operation, cause)
            await waiting.sleep(pause)

    async def _read(self) -> bool:
        """Reads until a frame is complete. Returns whether one came before the connection ended; a broken end is closed at once."""
        assert self._chunks is not None
        try:
            while True:
                chunk = await anext(self._chunks)
                if frames := self._decoder.feed(chunk):
                    self._frames.extend(frames)
                    self._reached = next((frame.id for frame in reversed(frames) if frame.id is not None), self._reached)
                    return True
        except StopAsyncIteration:
            return False
        except httpx.TransportError:
            await self.aclose()
            return False
        except BaseException:
            # Whoever stopped waiting may ask again: what was read of the next frame comes again then.
            await self.aclose()
            raise
