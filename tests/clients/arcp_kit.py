# Helpers for the tests of jobs: sessions of ARCP's own Python SDK, unmodified, and workers that run the agents.

import asyncio
import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

from arcp import ClientInfo, WebSocketTransport
from arcp.client import ARCPClient
from conftest import AGENTS, PROGRAM, STOP_LIMIT, environment
from kit import PATIENCE

HERE = Path(__file__).parent

ADA, BOB = AGENTS["agent.ada"], AGENTS["agent.bob"]

# All agents in agents.py, with their versions.
VERSIONS = [f"{agent}@1.0.0" for agent in ("sleeper", "chatty", "counter", "streamer", "large", "spender", "failing")]
VERSIONS += ["crashing@1.0.0", "echo@1.0.0", "echo@2.0.0"]


def looped(test):
    """Runs an asynchronous test with a time limit, because a client that waits for a missing event waits for ever."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 3 * PATIENCE))

    return run


def rest(url: str, key: str, method: str, path: str, body=None):
    """Sends one REST request, and returns its answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.loads(answer.read() or b"null")


@contextlib.contextmanager
def running(command: list, url: str, key: str, ready: str | None = None):
    """Runs a process that talks to the server until the block ends; then stops it, and checks that it exits with 0."""
    settings = environment() | {"ENTENTE_URL": url, "ENTENTE_API_KEY": key}
    with subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True) as process:
        lines, is_ready = [], threading.Event()

        def read():
            for line in process.stderr:
                lines.append(line)
                if ready and ready in line:
                    is_ready.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            assert not ready or is_ready.wait(PATIENCE), "".join(lines)
            yield process
            process.terminate()
            assert process.wait(STOP_LIMIT) == 0, "".join(lines)
        finally:
            process.kill()


def worker(url: str, key: str, slots: int = 4, versions: list[str] = VERSIONS, drain: int = 0, program: str = "agents.py"):
    """Runs `entente worker` with the agents of a program of these tests."""
    agents = [f"--agent={version}" for version in versions]
    command = f"exec '{sys.executable}' '{HERE / program}'"
    arguments = [f"--slots={slots}", f"--drain-seconds={drain}", "--kill-seconds=2", "--default", f"--exec={command}"]
    return running([PROGRAM, "worker", *agents, *arguments], url, key, "works on")


def socket(url: str) -> str:
    return url.replace("http", "ws", 1) + "/arcp"


class Recorder(WebSocketTransport):
    """The SDK's transport, which also records every received frame."""

    def __init__(self, connection):
        super().__init__(connection)
        self.frames = []

    async def recv(self):
        frame = await super().recv()
        self.frames.append(frame)
        return frame

    async def drop(self):
        """Ends the connection like a broken network, without closing the session."""
        self._conn.transport.abort()
        await asyncio.sleep(0)

    def numbers(self) -> list[int]:
        return [frame["event_seq"] for frame in self.frames if "event_seq" in frame]


@contextlib.asynccontextmanager
async def session(url: str, token: str = ADA, resume=None, **options):
    """Opens a session; `client.wire` is its transport."""
    client = ARCPClient(client=ClientInfo(name="tests", version="1"), token=token, **options)
    client.wire = await Recorder.connect(socket(url))
    try:
        if resume:
            await client.resume(client.wire, resume=resume)
        else:
            await client.connect(client.wire)
        yield client
    finally:
        await client.close()


def in_seconds(seconds: float) -> str:
    """Returns a time after now, in ARCP's format."""
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


async def events(handle) -> list[dict]:
    """Returns all events of a job, to its end."""
    return [event async for event in handle.events()]


async def until(look, what: str):
    """Polls until `look` returns something, and returns that."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while asyncio.get_running_loop().time() < end:
        if found := look():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"this never came: {what}")


def cli(url: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the `arcp` command of the SDK's package."""
    command = [sys.executable, "-m", "arcp", arguments[0], f"--url={socket(url)}", *arguments[1:]]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ENTENTE_")}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=3 * PATIENCE)
