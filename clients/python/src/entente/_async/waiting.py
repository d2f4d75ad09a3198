"""Waiting and work in the background, with tasks. The synchronous client has the same with threads (`_sync/waiting.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Awaitable, Callable

import httpx

sleep = asyncio.sleep
# The event loop that each client's connections belong to.
_loops: weakref.WeakKeyDictionary[httpx.AsyncClient, weakref.ref[asyncio.AbstractEventLoop]] = weakref.WeakKeyDictionary()


def note(http: httpx.AsyncClient) -> None:
    """Notes the event loop that uses a client."""
    _loops[http] = weakref.ref(asyncio.get_running_loop())


def reaches(http: httpx.AsyncClient) -> bool:
    """Whether a client can be used here: not in another event loop than the one that has used it."""
    known = _loops.get(http)
    return known is None or known() is asyncio.get_running_loop()


class Background:
    """Repeats an action, each time after the seconds that it asks for, until it asks for none or is stopped."""

    def __init__(self, action: Callable[[], Awaitable[float | None]]) -> None:
        self._action = action
        self._task: asyncio.Task[None] | None = None

    def start(self, first: float) -> None:
        """Begins after some seconds."""
        self._task = asyncio.create_task(self._run(first))

    async def _run(self, first: float) -> None:
        pause: float | None = first
        while pause is not None:
            await asyncio.sleep(pause)
            pause = await self._action()

    async def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
