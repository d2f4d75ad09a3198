# What the tests are written with: clients that remember what was called, and words for refusals, waiting and streams.

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

# Which method of which client answered, and which was refused: (class, method, "answered" or "refused").
CALLED: set[tuple[type, str, str]] = set()

# How long anything may take that the server does by itself.
PATIENCE = 10.0

# Ids of nobody's.
INTENT = "intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
CHANNEL = "chan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
MESSAGE = "msg_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
ENTRY = "acl_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
TASK = "task_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"
PLAN = "plan_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"

# A time that every interpreter which the SDK supports can read (contract 3.6).
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


class Sdk:
    """One of the SDK's clients, whose methods are called as they are. The asynchronous client's are waited for, so
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
    """A client of the given flavour, `sync` or `async`."""
    client = {"sync": OpenIntentClient, "async": AsyncOpenIntentClient}[flavour]
    return Sdk(client(base_url=url, api_key=key, agent_id=agent))


@contextlib.contextmanager
def refused(kind: type[OpenIntentError], status: int, code: str):
    """Requires that the SDK raises exactly this error, with what every refusal of Entente carries."""
    with pytest.raises(OpenIntentError) as caught:
        yield caught
    error = caught.value
    assert (type(error), error.status_code) == (kind, status), error.response
    assert error.response["code"] == code, error.response
    assert error.response["status"] == status
    assert error.response["message"] and error.response["detail"]


def now() -> datetime:
    """The time, without an offset, as the SDK has it (contract 3.6)."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def recent(at: datetime) -> bool:
    """Whether a time that the SDK read is naive UTC, and about now."""
    return at.tzinfo is None and abs((now() - at).total_seconds()) < 60


def eventually(look, what: str):
    """Looks until there is something, and returns it."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    pytest.fail(f"this never came: {what}")


def answer_the_next_request(sdk, channel: str, agent: str, payload: dict) -> threading.Thread:
    """Answers the first request for `agent` on the channel, from a thread of its own."""

    def requests():
        return [message for message in sdk.list_messages(channel, to=agent) if message["message_type"] == "request"]

    def answer():
        [request] = eventually(requests, "a request")
        sdk.reply_to(channel, request["id"], agent, payload)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


class Inbox:
    """Events that came, in the order in which they came."""

    def __init__(self):
        self._events: queue.Queue[SSEEvent] = queue.Queue()
        self.put = self._events.put

    def next(self, *types: str) -> SSEEvent:
        """The next event of one of these types; those before it are passed over."""
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
        """All events up to the next one of this type, which is left out."""
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
    """Follows a stream in a thread; what comes is in the inbox. Begun once the server has greeted: its greeting sets how
    long the SDK waits before it comes back."""
    inbox = Inbox()
    stream.reconnect_delay = ungreeted = 86_400.0

    def follow():
        # Stopping closes the socket under the reader, which the SDK answers with one error or another.
        with contextlib.suppress(Exception):
            for event in stream:
                inbox.put(event)

    threading.Thread(target=follow, daemon=True).start()
    try:
        eventually(lambda: stream.reconnect_delay != ungreeted, "the stream's greeting")
        yield inbox
    finally:
        stream.stop()
