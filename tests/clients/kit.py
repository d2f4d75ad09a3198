# Helpers for the tests: clients that record their calls, and functions for refusals, waiting and streams.

import asyncio
import contextlib
import inspect
import queue
import re
import threading
import time
from datetime import datetime, timezone

import pytest
from openintent import AsyncOpenIntentClient, OpenIntentClient, OpenIntentError, SSEEvent, SSEStream

# Recorded calls: (class, method, "answered" or "refused").
CALLED: set[tuple[type, str, str]] = set()

# What the SDK sent without effect, as the server named it (`Entente-Warning`): members and query parameters.
WARNED: list[str] = []

# Time limit in seconds for effects that the server causes by itself.
PATIENCE = 10.0

# Ids that do not exist.
INTENT = "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
CHANNEL = "chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
MESSAGE = "msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
ENTRY = "acl_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
TASK = "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
PLAN = "plan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"

# A time format that every Python version supported by the SDK can parse (OI-3.6.2).
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


class Sdk:
    """One of the SDK's clients, with its methods called unchanged. Results of the asynchronous client are awaited, so
    that one test serves both."""

    def __init__(self, client):
        self._sdk = client
        self._loop = asyncio.new_event_loop() if isinstance(client, AsyncOpenIntentClient) else None

    def __getattr__(self, name):
        attribute = getattr(self._sdk, name)
        if not callable(attribute):
            return attribute

        def call(*args, **kwargs):
            try:
                answer = attribute(*args, **kwargs)
                if inspect.isawaitable(answer):
                    answer = self._loop.run_until_complete(answer)
            except (OpenIntentError, TimeoutError):
                CALLED.add((type(self._sdk), name, "refused"))
                raise
            CALLED.add((type(self._sdk), name, "answered"))
            return answer

        return call

    def end(self):
        self.close()
        if self._loop:
            self._loop.close()


def open_sdk(flavour: str, url: str, key: str, agent: str) -> Sdk:
    """Opens a client of the given flavour, `sync` or `async`."""
    client = {"sync": OpenIntentClient, "async": AsyncOpenIntentClient}[flavour]
    client = client(base_url=url, api_key=key, agent_id=agent)
    # The SDK's own connection pool; listening to it changes no request.
    client._client.event_hooks = {"response": [note_later if flavour == "async" else note]}
    return Sdk(client)


def note(response) -> None:
    """Records the names in a request that had no effect."""
    if warning := response.headers.get("entente-warning"):
        WARNED.append(f"{response.request.method} {response.request.url.path}: {warning}")


async def note_later(response) -> None:
    note(response)


@contextlib.contextmanager
def refused(kind: type[OpenIntentError], status: int, code: str):
    """Requires that the SDK raises exactly this error, with the members that every refusal of Entente has."""
    with pytest.raises(OpenIntentError) as caught:
        yield caught
    error = caught.value
    assert (type(error), error.status_code) == (kind, status), error.response
    assert error.response["code"] == code, error.response
    assert error.response["status"] == status
    assert error.response["message"] and error.response["detail"]


def now() -> datetime:
    """Returns the current time without an offset, as the SDK uses it (OI-3.6.3)."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def recent(at: datetime) -> bool:
    """Returns whether a time from the SDK is naive UTC, and about now."""
    return at.tzinfo is None and abs((now() - at).total_seconds()) < 60


def eventually(look, what: str):
    """Polls until `look` returns something, and returns that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    pytest.fail(f"this never came: {what}")


def answer_the_next_request(sdk, channel: str, agent: str, payload: dict) -> threading.Thread:
    """Answers the first request for `agent` on the channel, in a separate thread."""

    def requests():
        return [message for message in sdk.list_messages(channel, to=agent) if message["message_type"] == "request"]

    def answer():
        [request] = eventually(requests, "a request")
        sdk.reply_to(channel, request["id"], agent, payload)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


class Inbox:
    """Received events, in their order of arrival."""

    def __init__(self):
        self._events: queue.Queue[SSEEvent] = queue.Queue()
        self.put = self._events.put

    def next(self, *types: str) -> SSEEvent:
        """Returns the next event of one of these types, and skips those before it."""
        passed = []
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left)
            except queue.Empty:
                break
            if event.type in types:
                return event
            passed.append(event.type)
        pytest.fail(f"no {' or '.join(types)} came, only {passed}")

    def until(self, last: str) -> list[SSEEvent]:
        """Returns all events before the next one of this type, and consumes that one."""
        events = []
        while (event := self.next_of_any()).type != last:
            events.append(event)
        return events

    def next_of_any(self) -> SSEEvent:
        try:
            return self._events.get(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail("nothing came any more")


@contextlib.contextmanager
def following(stream: SSEStream):
    """Follows a stream in a thread; its events are in the inbox. Yields once the server has greeted, because the
    greeting sets the SDK's reconnection delay."""
    inbox = Inbox()
    stream.reconnect_delay = ungreeted = 86_400.0

    def follow():
        # Stopping closes the socket under the reader, and the SDK then raises various errors.
        with contextlib.suppress(Exception):
            for event in stream:
                inbox.put(event)

    threading.Thread(target=follow, daemon=True).start()
    try:
        eventually(lambda: stream.reconnect_delay != ungreeted, "the stream's greeting")
        yield inbox
    finally:
        stream.stop()
