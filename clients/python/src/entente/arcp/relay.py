"""A session of a client that has connected to this program, carried to the server.

While the client is here the session outlives the server's restarts: a broken connection is resumed, and requests that were not answered are
sent again, under keys that make each of them happen once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable
from typing import Any

from arcp import ARCPError, InternalError, Transport, TransportClosed, WebSocketTransport
from websockets.exceptions import WebSocketException

from .._settings import tls

Frame = dict[str, Any]

UNREACHABLE = (TransportClosed, WebSocketException, OSError, asyncio.TimeoutError)
# Seconds for which a new session waits for its server: the SDK's client waits five for the answer.
PATIENCE = 4.0
# Seconds for which one connection waits for the answer, and for its end: a server that hangs has them all open.
ANSWER, CLOSING = 10.0, 1.0
# Requests whose answers name them.
# A cancellation is none of them: sent again it may find the job ended, and be refused.
ANSWERED = ("job.submit", "job.subscribe", "session.list_jobs")
# Requests whose answers tell the client of a job: it drops events of a job that it does not know yet.
TELLING = ("job.submit", "job.subscribe")
# Sessions whose tokens are remembered; a client that resumes an older one begins a new session.
REMEMBERED = 10_000
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def refusal(error: ARCPError, session_id: str | None = None) -> Frame:
    """Returns the frame with which a session ends that was refused."""
    told = {"code": error.code, "message": error.message, "retryable": error.retryable}
    frame = {"arcp": "1.1", "id": "msg_" + "".join(secrets.choice(CROCKFORD) for _ in range(26)), "type": "session.error", "payload": told}
    return frame if session_id is None else frame | {"session_id": session_id}


class Tokens:
    """The latest resume token of each session, by its id, beside the one that its client knows."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def set(self, session_id: str, given: str, latest: str) -> None:
        """Notes the token that the client was given, and the latest one."""
        self._known.pop(session_id, None)
        self._known[session_id] = (given, latest)
        if len(self._known) > REMEMBERED:
            self._known.pop(next(iter(self._known)))

    def latest(self, session_id: str, given: str) -> str:
        """Returns the token to resume a session with whose client shows this one."""
        known = self._known.get(session_id)
        return known[1] if known and secrets.compare_digest(known[0].encode(), given.encode()) else given


class Relay:
    """One session: the frames of a client at the server, and back."""

    def __init__(self, near: Transport, url: str, hello: Frame, token: Callable[[], str], tokens: Tokens) -> None:
        self._near, self._url, self._hello, self._token, self._tokens = near, url, hello, token, tokens
        self._far: Transport | None = None
        self._connected = asyncio.Event()
        self._welcome: Frame = {}
        # What the client knows, and what it resumes with.
        self._given = ""
        self._seq = 0
        self._unanswered: dict[str, Frame] = {}
        # Requests that are sent again and may have happened: events of their jobs can come before their answers.
        self._repeated: set[str] = set()
        # Events that wait for these answers.
        self._held: list[Frame] = []
        # The request that `_up` is sending.
        self._sending = ""
        self._leaving = False

    async def run(self) -> None:
        """Carries the session until one of both ends it."""
        tasks: set[asyncio.Task[None]] = set()
        try:
            if not await self._open():
                return
            tasks = {asyncio.create_task(self._up()), asyncio.create_task(self._down())}
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with contextlib.suppress(TransportClosed):
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._near.close()
            if self._far is not None:
                await self._far.close()

    async def _open(self) -> bool:
        """Opens the client's session, or resumes it; passes the server's answer on, and returns whether it is a welcome."""
        resume = self._hello["payload"].get("resume")
        if isinstance(resume, dict):
            last = resume.get("last_event_seq")
            self._seq = last if isinstance(last, int) else 0
            latest = self._tokens.latest(str(resume.get("session_id")), str(resume.get("resume_token")))
            resume = {**resume, "resume_token": latest}
        answer = await self._greet(resume, PATIENCE)
        if answer is None:
            answer = refusal(InternalError("The server cannot be reached. Try again."))
        self._given = str(self._welcome.get("resume_token"))
        await self._near.send(answer)
        self._connected.set()
        return bool(self._welcome)

    async def _greet(self, resume: Frame | None, patience: float) -> Frame | None:
        """Connects to the server, and returns its answer; None if it cannot be reached in time."""
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + patience, 0.05
        while True:
            answer: Frame | None = None
            try:
                async with asyncio.timeout(min(max(end - loop.time(), CLOSING), ANSWER)):
                    self._far, answer = await self._connect(resume)
            except UNREACHABLE:
                passing = True
            else:
                self._welcome = answer["payload"] if answer.get("type") == "session.welcome" else {}
                # A server that has only just begun may not reach its database yet.
                passing = not self._welcome and answer["payload"].get("retryable") is True
            if not passing or loop.time() + pause > end:
                return answer
            if answer is not None and self._far is not None:
                await self._far.close()
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 2.0)

    async def _connect(self, resume: Frame | None) -> tuple[Transport, Frame]:
        options = {"ssl": tls()} if self._url.startswith("wss") else {}
        far = await WebSocketTransport.connect(self._url, close_timeout=CLOSING, **options)
        try:
            await far.send(self._frame(resume))
            return far, await far.recv()
        except BaseException:
            await far.close()
            raise

    def _frame(self, resume: Frame | None) -> Frame:
        payload = {**self._hello["payload"], "auth": {"scheme": "bearer", "token": self._token()}}
        payload.pop("resume", None)
        if resume is not None:
            payload["resume"] = resume
        return {**self._hello, "payload": payload}

    async def _up(self) -> None:
        """Passes on what the client sends."""
        while True:
            frame = await self._near.recv()
            kind, request = frame.get("type"), str(frame.get("id"))
            payload = frame.get("payload")
            if kind == "job.submit" and isinstance(payload, dict) and not payload.get("idempotency_key"):
                # Sent twice, it is one job.
                frame = {**frame, "payload": {**payload, "idempotency_key": f"relay-{request}"}}
            if kind in ANSWERED:
                self._unanswered[request] = frame
            self._leaving = self._leaving or kind == "session.bye"
            self._sending = request
            await self._send(frame)
            self._sending = ""

    async def _send(self, frame: Frame) -> None:
        while True:
            await self._connected.wait()
            far = self._far
            assert far is not None
            try:
                return await far.send(frame)
            except TransportClosed:
                # `_down` notices it as well, and connects anew.
                if self._leaving:
                    return
                if far is self._far:
                    self._connected.clear()

    async def _down(self) -> None:
        """Passes on what the server sends, over as many connections as it takes."""
        while True:
            assert self._far is not None
            try:
                frame = await self._far.recv()
            except TransportClosed:
                self._connected.clear()
                if self._leaving or not await self._resume():
                    return
                continue
            self._note(frame)
            if self._repeated and frame.get("event_seq"):
                self._held.append(frame)
                continue
            await self._near.send(frame)
            if not self._repeated:
                held, self._held = self._held, []
                for event in held:
                    await self._near.send(event)

    def _note(self, frame: Frame) -> None:
        self._seq = max(self._seq, int(frame.get("event_seq") or 0))
        payload = frame.get("payload")
        if isinstance(payload, dict):
            request = str(payload.get("request_id"))
            self._unanswered.pop(request, None)
            self._repeated.discard(request)

    async def _resume(self) -> bool:
        """Resumes the session, of which the client notices nothing; returns whether it goes on."""
        session, token = str(self._welcome.get("session_id")), str(self._welcome.get("resume_token"))
        window = float(self._welcome.get("resume_window_sec") or 0)
        resume = {"session_id": session, "resume_token": token, "last_event_seq": self._seq}
        answer = await self._greet(resume, window)
        if answer is None or self._far is None:
            return False
        if not self._welcome:
            await self._near.send(answer)
            return False
        self._tokens.set(session, self._given, str(self._welcome.get("resume_token")))
        self._repeated = {request for request, frame in self._unanswered.items() if frame.get("type") in TELLING}
        # If this connection breaks too, the next read tells.
        with contextlib.suppress(TransportClosed):
            for request, frame in list(self._unanswered.items()):
                if request != self._sending:
                    await self._far.send(frame)
        self._connected.set()
        return True
