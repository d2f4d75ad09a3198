# A client that reads frames as ARCP's TypeScript SDK 2.0.0 does: it drops a frame that the SDK's schemas reject, takes
# a gap in the numbers for a broken session (ARCP-W-3.6), matches `job.accepted` by order, and fails every open handle
# on `session.error`. That SDK is in no package registry, so it cannot run here itself. The block ends with a check that
# no frame was dropped and no number skipped.

import asyncio
import contextlib
import json
import re

import websockets
from arcp_kit import ADA, socket
from kit import PATIENCE

# The features that the SDK offers unless it is told otherwise.
FEATURES = ["heartbeat", "ack", "list_jobs", "subscribe", "lease_expires_at", "cost.budget", "progress"]
FEATURES += ["result_chunk", "agent_versions", "model.use", "provisioned_credentials"]
# Its error codes (ARCP §12): it drops a frame with another one (ARCP-W-3.9).
CODES = "PERMISSION_DENIED LEASE_SUBSET_VIOLATION JOB_NOT_FOUND DUPLICATE_KEY AGENT_NOT_AVAILABLE CANCELLED TIMEOUT"
CODES += " AGENT_VERSION_NOT_AVAILABLE RESUME_WINDOW_EXPIRED HEARTBEAT_LOST LEASE_EXPIRED BUDGET_EXHAUSTED"
CODES = set(f"{CODES} INVALID_REQUEST UNAUTHENTICATED INTERNAL_ERROR".split())
STATES = {"pending", "running", "success", "error", "cancelled", "timed_out"}
NUMBERED = {"job.event", "job.result", "job.error"}


class Refusal(Exception):
    def __init__(self, payload: dict):
        super().__init__(payload["message"])
        self.code = payload["code"]


def is_text(value) -> bool:
    return isinstance(value, str) and value != ""


def is_count(value, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_lease(value) -> bool:
    return all(is_text(pattern) for patterns in value.values() for pattern in patterns)


def is_budget(value) -> bool:
    return all(is_number(amount) for amount in value.values())


def is_error(payload: dict) -> bool:
    known = payload["code"] in CODES and is_text(payload["message"])
    return known and isinstance(payload.get("retryable", False), bool) and isinstance(payload.get("details", {}), dict)


def is_credential(one: dict) -> bool:
    return one["scheme"] == "bearer" and all(is_text(one[name]) for name in ("id", "value", "endpoint"))


def is_accepted(payload: dict) -> bool:
    texts = [payload["job_id"], payload["accepted_at"]]
    texts += [payload[name] for name in ("agent", "parent_job_id", "delegate_id", "trace_id") if name in payload]
    fits = all(map(is_text, texts)) and is_lease(payload["lease"]) and is_budget(payload.get("budget", {}))
    return fits and all(map(is_credential, payload.get("credentials", [])))


def is_listed(one: dict) -> bool:
    texts = all(is_text(one[name]) for name in ("job_id", "agent", "status", "created_at"))
    return texts and is_lease(one["lease"]) and is_count(one["last_event_seq"])


def is_agent(one: dict) -> bool:
    return is_text(one["name"]) and all(map(is_text, one["versions"])) and is_text(one.get("default", "none"))


# The checks of payloads, by type. A missing member is a KeyError, which counts as rejected.
PAYLOADS = {
    "session.welcome": lambda p: is_text(p["runtime"]["name"]) and is_text(p["runtime"]["version"])
    and is_text(p["resume_token"]) and is_count(p["resume_window_sec"], 1) and is_count(p.get("heartbeat_interval_sec", 1), 1)
    and all(map(is_agent, p["capabilities"]["agents"])),
    "session.error": is_error,
    "session.ping": lambda p: is_text(p["nonce"]) and is_text(p["sent_at"]),
    "session.pong": lambda p: is_text(p["ping_nonce"]) and is_text(p["received_at"]),
    "session.jobs": lambda p: is_text(p["request_id"]) and (p["next_cursor"] is None or is_text(p["next_cursor"]))
    and all(map(is_listed, p["jobs"])),
    "job.accepted": is_accepted,
    "job.event": lambda p: is_text(p["kind"]) and is_text(p["ts"]) and isinstance(p["body"], dict),
    "job.result": lambda p: p["final_status"] == "success" and not ("result" in p and "result_id" in p)
    and is_text(p.get("result_id", "none")) and is_count(p.get("result_size", 0)),
    "job.error": lambda p: p["final_status"] in ("error", "cancelled", "timed_out") and is_error(p),
    "job.subscribed": lambda p: p["current_status"] in STATES and is_text(p["agent"]) and is_lease(p["lease"])
    and is_count(p["subscribed_from"]) and isinstance(p["replayed"], bool) and is_budget(p.get("budget", {})),
    # The SDK has no schema for this one, and ignores it.
    "job.cancelled": lambda p: True,
}  # fmt: skip


def is_read(frame: dict) -> bool:
    """Whether the SDK's schemas take a frame."""
    try:
        kind = frame["type"]
        fits = frame["arcp"] == "1.1" and is_text(frame["id"]) and is_text(frame["session_id"])
        fits = fits and re.fullmatch("[0-9a-f]{32}", frame.get("trace_id", "0" * 32)) is not None
        fits = fits and (not kind.startswith("job.") or is_text(frame["job_id"]))
        fits = fits and (is_count(frame["event_seq"]) if kind in NUMBERED else "event_seq" not in frame)
        return fits and bool(PAYLOADS[kind](frame["payload"]))
    except (KeyError, TypeError, AttributeError):
        return False


class Handle:
    """A submitted job."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.acceptance, self.done = loop.create_future(), loop.create_future()
        self.events = []

    @property
    def job_id(self) -> str:
        return self.acceptance.result()["job_id"]

    def fail(self, refusal: Refusal):
        for future in (self.acceptance, self.done):
            if not future.done():
                future.set_exception(refusal)
                # A handle that nobody reads fails silently, as in the SDK.
                future.exception()

    def bodies(self, kind: str) -> list[dict]:
        return [event["body"] for event in self.events if event["kind"] == kind]


class Client:
    """A connected client. `extensions` are sent with every envelope, as the SDK's tracing does."""

    def __init__(self, connection, token: str, features: list[str], extensions: dict | None):
        self.connection, self.token, self.features, self.extensions = connection, token, features, extensions
        self.frames, self.dropped, self.last_seq, self.sent = [], [], 0, 0
        self.handles, self.pending, self.by_job = [], [], {}
        self.answers: dict[str, asyncio.Future] = {}
        self.handshake = asyncio.get_running_loop().create_future()
        self.session_id = ""

    def next_id(self) -> str:
        """The id of the next envelope: a ULID, as the SDK makes them."""
        return f"msg_01KTS{self.sent + 1:021d}"

    async def send(self, kind: str, payload: dict, **members):
        envelope = {"arcp": "1.1", "id": self.next_id(), "type": kind, **members, "payload": payload}
        self.sent += 1
        if self.session_id:
            envelope["session_id"] = self.session_id
        if self.extensions:
            envelope["extensions"] = self.extensions
        await self.connection.send(json.dumps(envelope))

    async def read(self):
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.connection:
                frame = json.loads(text)
                if is_read(frame):
                    await self.take(frame)
                else:
                    self.dropped.append(frame)
        if not self.handshake.done():
            self.handshake.set_exception(ConnectionError("the transport closed before the handshake was over"))

    async def take(self, frame: dict):
        self.frames.append(frame)
        kind, payload, seq = frame["type"], frame["payload"], frame.get("event_seq")
        if seq is not None and seq > self.last_seq:
            if seq != self.last_seq + 1:
                self.dropped.append({"a gap before": frame})
            self.last_seq = seq
        if kind == "session.welcome":
            self.session_id = frame["session_id"]
            self.handshake.set_result(payload)
        elif kind == "session.error":
            self.refuse(Refusal(payload))
        elif kind == "session.ping":
            await self.send("session.pong", {"ping_nonce": payload["nonce"], "received_at": "2026-01-01T00:00:00Z"})
        elif kind in ("session.jobs", "job.subscribed"):
            self.answers.pop(payload["request_id"] if kind == "session.jobs" else payload["job_id"]).set_result(payload)
        elif kind == "job.accepted" and self.pending:
            handle = self.pending.pop(0)
            self.by_job[payload["job_id"]] = handle
            handle.acceptance.set_result(payload)
        elif kind in NUMBERED and (handle := self.by_job.get(frame["job_id"])):
            if kind == "job.event":
                handle.events.append(payload)
            elif kind == "job.error":
                handle.fail(Refusal(payload))
            elif not handle.done.done():
                handle.done.set_result(payload)

    def refuse(self, refusal: Refusal):
        for handle in self.handles:
            handle.fail(refusal)
        for answer in self.answers.values():
            answer.set_exception(refusal)
        self.answers.clear()
        if not self.handshake.done():
            self.handshake.set_exception(refusal)

    async def hello(self, resume: dict | None):
        capabilities = {"encodings": ["json"], "features": self.features}
        payload = {"client": {"name": "typescript", "version": "1.0.0"}, "capabilities": capabilities}
        payload["auth"] = {"scheme": "bearer", "token": self.token}
        if resume:
            payload["resume"] = resume
            self.last_seq = resume["last_event_seq"]
        await self.send("session.hello", payload)
        # The SDK's own limit for the welcome.
        self.welcome = await asyncio.wait_for(self.handshake, 5)

    async def submit(self, agent: str, input=None, **members) -> Handle:
        handle = Handle()
        self.handles.append(handle)
        self.pending.append(handle)
        await self.send("job.submit", {"agent": agent, "input": input, **members})
        try:
            await asyncio.wait_for(handle.acceptance, PATIENCE)
        except Refusal:
            self.pending.remove(handle)
            raise
        return handle

    async def cancel(self, job_id: str):
        await self.send("job.cancel", {}, job_id=job_id)

    async def list_jobs(self, **payload) -> dict:
        asked = self.ask(self.next_id())
        await self.send("session.list_jobs", payload)
        return await asyncio.wait_for(asked, PATIENCE)

    async def subscribe(self, job_id: str, **payload) -> dict:
        asked = self.ask(job_id)
        await self.send("job.subscribe", {"job_id": job_id, **payload})
        return await asyncio.wait_for(asked, PATIENCE)

    def ask(self, key: str) -> asyncio.Future:
        self.answers[key] = asyncio.get_running_loop().create_future()
        return self.answers[key]

    async def until(self, kind: str, **members) -> dict:
        """Waits for a frame of a type, with these members in its payload."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < end:
            for frame in self.frames:
                if frame["type"] == kind and all(frame["payload"].get(name) == value for name, value in members.items()):
                    return frame
            await asyncio.sleep(0.02)
        raise AssertionError(f"no {kind} with {members} came: {self.frames}")


@contextlib.asynccontextmanager
async def typescript(url: str, token: str = ADA, resume=None, features=None, extensions=None, leaves: bool = True):
    """Opens a session; `leaves` says whether it ends with `session.bye` or by a broken connection."""
    async with websockets.connect(socket(url)) as connection:
        client = Client(connection, token, FEATURES if features is None else features, extensions)
        reader = asyncio.create_task(client.read())
        try:
            await client.hello(resume)
            yield client
            if leaves:
                await client.send("session.bye", {})
        finally:
            await connection.close()
            await reader
    assert client.dropped == []
