"""Waiting and work in the background, with threads. The asynchronous client has the same with tasks (`_async/waiting.py`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx

sleep = time.sleep


def note(http: httpx.Client) -> None:
    """Notes nothing: any thread may use a client."""


def reaches(http: httpx.Client) -> bool:
    """Whether a client can be used here: it always can."""
    return True


class Background:
    """Repeats an action, each time after the seconds that it asks for, until it asks for none or is stopped."""

    def __init__(self, action: Callable[[], float | None]) -> None:
        self._action = action
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, first: float) -> None:
        """Begins after some seconds."""
        self._thread = threading.Thread(target=self._run, args=[first], name="entente", daemon=True)
        self._thread.start()

    def _run(self, first: float) -> None:
        pause: float | None = first
        while pause is not None and not self._stopping.wait(pause):
            pause = self._action()

    def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
