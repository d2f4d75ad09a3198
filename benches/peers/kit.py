"""Tools of the comparison: processes that end with it, the load generator, and requests over HTTP."""

import contextlib
import ctypes
import dataclasses
import importlib.metadata
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

# The same for everybody.
CLIENTS = 32
# Bytes of a message's text, those of `make bench`.
TEXT = "x" * 270
# Seconds of a load; a trial has one second, and the load generator its own short time.
SECONDS = 4

# The load generator of `make bench`, and the server that it would start; see scripts/bench-peers.sh.
LOAD = os.environ.get("ENTENTE_LOAD_BIN", "")
ENTENTE = os.environ.get("ENTENTE_BIN", "")

START_LIMIT = 60
STOP_LIMIT = 20


class Unavailable(Exception):
    """A program that cannot be compared here; the message says why."""


@dataclasses.dataclass
class Result:
    """What a load measured: operations per second, latencies in ms if they are known, and the percentage of the machine's
    processor time that its generator used."""

    rate: float
    share: float
    p50: float | None = None
    p99: float | None = None


@dataclasses.dataclass
class Work:
    """One comparison: what the other program does, and how; `ours` names the equal work of Entente (`entente.py`)."""

    does: str
    durable: str
    ours: str
    run: object
    conditions: str


def median(results: list[Result]) -> Result:
    """Returns the medians of several results."""
    values = lambda name: [value for result in results if (value := getattr(result, name)) is not None]
    return Result(*(statistics.median(found) if (found := values(name)) else None for name in ("rate", "share", "p50", "p99")))


def die_with_parent():
    """Has Linux kill the calling process when its parent ends, even if that is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def end(process: subprocess.Popen, stop: int):
    """Ends a process and all of its group."""
    for number in (stop, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_LIMIT)
            break
    # What the process has left behind.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def scratch():
    """Creates a folder, and removes it when the block ends, or when this program is killed."""
    place = Path(tempfile.mkdtemp(prefix="entente-peers-"))
    # PostgreSQL's user must reach its folder.
    place.chmod(0o755)
    # Waits for the end of a pipe that only this program holds open.
    words = ["sh", "-c", 'cat >/dev/null; sleep 1; rm -rf "$0"', place]
    watch = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        watch.communicate()


@contextlib.contextmanager
def running(words, log: Path, stop=signal.SIGTERM, **options):
    """Runs a program in the background, with its output in a file, until the block ends."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True, preexec_fn=die_with_parent, **options,
        )
    process.log = log
    try:
        yield process
    finally:
        end(process, stop)


def wait(process, ready):
    """Waits until `ready` returns something true, and returns it; fails with the process's last words if it ends."""
    begun = time.monotonic()
    while not (found := ready()):
        if process.poll() is not None or time.monotonic() > begun + START_LIMIT:
            said = process.log.read_text(errors="replace")[-400:]
            raise Unavailable(f"it {'does not get ready' if process.poll() is None else 'ends'}: {' '.join(said.split())}")
        time.sleep(0.05)
    return found


def said(process, mark: str):
    """Returns the rest of the line of the process's output that has `mark`, if there is one."""
    for line in process.log.read_text(errors="replace").splitlines():
        if mark in line:
            return line.split(mark, 1)[1].strip() or mark
    return None


def listens(port: int) -> bool:
    """Whether somebody listens on the port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def called(words, **options) -> str:
    """Runs a program to its end, and returns its output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Unavailable(f"{Path(words[0]).name} fails: {' '.join((done.stderr or done.stdout)[-400:].split())}")
    return done.stdout


def driven(words) -> tuple[str, float]:
    """Runs a load to its end; returns its output, and its share of the machine's processor time in percent."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=die_with_parent, env=os.environ | {"RUST_BACKTRACE": "0"},
    )
    try:
        before = os.times()
        output, errors = process.communicate(timeout=10 * SECONDS + START_LIMIT)
        after = os.times()
    finally:
        end(process, signal.SIGKILL)
    if process.returncode != 0:
        raise Unavailable(f"its load fails: {' '.join((errors or output)[-400:].split())}")
    # Nothing else of this program ends meanwhile.
    spent = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return output, 100 * spent / ((time.monotonic() - begun) * (os.cpu_count() or 1))


def loaded(words) -> Result:
    """Runs a load that prints its result as JSON in its last line."""
    output, share = driven(words)
    found = json.loads(output.splitlines()[-1])
    if found.get("failures"):
        raise Unavailable(f"{found['failures']} requests fail")
    return Result(found["rate"], share, found.get("p50"), found.get("p99"))


def trial() -> list[str]:
    """Returns the load generator's option for a trial."""
    return ["--smoke"] if SECONDS == 1 else []


def shoot(place: Path, port: int, request: str, talk="Http") -> Result:
    """Sends the same request over and over from all clients, each of which waits for its answer."""
    asked = {"address": f"127.0.0.1:{port}", "clients": CLIENTS, "request": request, "talk": talk}
    file = place / "load.json"
    file.write_text(json.dumps(asked))
    return loaded([LOAD, "shoot", file, *trial()])


def post(path: str, body, headers: dict[str, str] | None = None) -> str:
    """Returns a POST request in HTTP/1.1."""
    text = json.dumps(body)
    lines = [f"POST {path} HTTP/1.1", "host: peers", "content-type: application/json", f"content-length: {len(text)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines) + "\r\n\r\n" + text


def ask(method: str, url: str, body=None, headers: dict[str, str] | None = None):
    """Sends one request, and returns the JSON of its answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"} | (headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=START_LIMIT) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        raise Unavailable(f"{method} {url} is answered with {error.code}: {error.read()[:300]!r}") from error


def node() -> Path:
    """Returns Node.js, of the version that the packages need."""
    return HERE / "node_modules" / ".bin" / "node"


def npm_version(package: str) -> str:
    """Returns the version of an installed npm package."""
    described = HERE / "node_modules" / package / "package.json"
    if not described.exists():
        raise Unavailable(f"npm has not installed {package} here")
    return json.loads(described.read_text())["version"]


def pypi_version(package: str) -> str:
    """Returns the version of an installed package of PyPI."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable(f"pip has not installed {package} here") from None


def note(text: str):
    """Prints progress."""
    print(text, file=sys.stderr, flush=True)
