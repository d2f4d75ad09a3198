# The server under test, a real one in its own process with a private PostgreSQL, and the SDK's clients for it.

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import httpx
import pytest
from kit import open_sdk

PROGRAM = Path(__file__).parents[2] / "target" / "debug" / "entente"

# The service's key equals its name, as in set-ups for the reference server (OI-7.8).
SERVICE = "dev-user-key"
# A person with a literal key that the operator chose at the start; and the person that `entente dev` asks questions
# without an explicit addressee.
GRACE = ("human.grace", "the-key-of-grace")
DEVELOPER = "human.dev"
AGENTS = {"agent.ada": "the-key-of-ada", "agent.bob": "the-key-of-bob", "agent.eve": "the-key-of-eve"}

START_LIMIT = 60.0
STOP_LIMIT = 30.0

SETTINGS = {
    # The SDK's reader notices a stop only at the next line, and the SDK waits for that.
    "ENTENTE_PING_SECONDS": "1",
    "ENTENTE_REFUSED_SUBSCRIBE_SECONDS": "1",
    "ENTENTE_LOG_FORMAT": "json",
}


def environment() -> dict[str, str]:
    """Returns this environment, without settings for another server."""
    ours = ("DATABASE_URL", "ENTENTE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    if programs := os.environ.get("ENTENTE_PG_BIN"):
        kept["ENTENTE_PG_BIN"] = programs
    return kept | SETTINGS


# Operators' keys, by the URL of the server that printed them.
OPERATORS = {}


def read_url(process: subprocess.Popen) -> str | None:
    """Returns the URL that the server prints once it listens, after reading the operator's key, which comes later."""
    too_long = threading.Timer(START_LIMIT, process.kill)
    too_long.start()
    try:
        url = ""
        for line in process.stdout:
            url = line.partition("export ENTENTE_URL=")[2].strip() or url
            key = line.partition("ENTENTE_OPERATOR_KEY=")[2].strip()
            if key:
                OPERATORS[url] = key
                return url
    finally:
        too_long.cancel()
    return None


def wait_until_ready(url: str) -> None:
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        with contextlib.suppress(urllib.error.HTTPError):
            with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.05)
    pytest.fail(f"{url}/readyz never said that the server is ready")


def check_log(log: str) -> None:
    """Checks that no defect and no key was logged."""
    for line in log.splitlines():
        entry = json.loads(line)
        assert entry["level"] != "ERROR", line
    for key in AGENTS.values():
        assert key not in log


@contextlib.contextmanager
def serving(seeds: tuple[str, ...] = (), **settings: str):
    """Runs a separate server, with more keys of the form `kind:id=key`, and yields its URL."""
    assert PROGRAM.exists(), "build it first: cargo build"
    with tempfile.TemporaryDirectory(prefix="entente-clients-") as home:
        # When the tests run as root, PostgreSQL runs as another user, which needs access.
        os.chmod(home, 0o755)
        keys = [f"service:{SERVICE}={SERVICE}", *(f"agent:{agent}={key}" for agent, key in AGENTS.items())]
        keys += [f"human:{'='.join(GRACE)}", *seeds]
        arguments = ["dev", "--bind", "127.0.0.1:0", "--data-dir", "data", *(f"--seed={key}" for key in keys)]
        log = Path(home, "log")
        with log.open("w") as errors, subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=home,
            env=environment() | settings,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Ctrl-C goes only to the tests, which then stop the server in order.
            start_new_session=True,
        ) as process:
            try:
                url = read_url(process)
                assert url, f"the server did not start:\n{log.read_text()}"
                wait_until_ready(url)
                yield url
                process.send_signal(signal.SIGTERM)
                assert process.wait(STOP_LIMIT) == 0, log.read_text()
            finally:
                # Ends the server at once with a second signal, if it still runs.
                process.terminate()
        check_log(log.read_text())


@pytest.fixture(scope="session")
def url():
    """The URL of the server for the whole run."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def served(url):
    """The same server, with a worker that runs the agents of agents.py."""
    from arcp_kit import worker

    with worker(url, SERVICE):
        yield url


@pytest.fixture(scope="session")
def operator(url) -> str:
    """The operator's key, for actions that agents may not take."""
    return OPERATORS[url]


@pytest.fixture(params=["sync", "async"])
def flavour(request) -> str:
    """The SDK client that a test uses: each test runs with both."""
    return request.param


@pytest.fixture(scope="session")
def opened():
    """Open clients, kept for the next test: opening one takes the SDK longer than most tests."""
    sdks = {}
    yield sdks
    for sdk in sdks.values():
        sdk.end()


@pytest.fixture
def connect(url, flavour, opened):
    """Opens clients with an agent's own key, or with the service's key, which may act as anybody."""

    def open_one(agent: str, key: str = "", flavour: str = flavour):
        name = (flavour, key or AGENTS.get(agent, SERVICE), agent)
        if name not in opened:
            opened[name] = open_sdk(name[0], url, *name[1:])
        return opened[name]

    return open_one


@pytest.fixture
def ada(connect):
    return connect("agent.ada")


@pytest.fixture
def bob(connect):
    return connect("agent.bob")


@pytest.fixture
def eve(connect):
    return connect("agent.eve")


@pytest.fixture
def intent(ada):
    """An intent of Ada's with open access."""
    return ada.create_intent("Research", "Q1 figures")


@pytest.fixture
def channel(ada, intent) -> str:
    """The id of a channel on that intent."""
    return ada.create_channel(intent.id, "talk")["id"]


@pytest.fixture(scope="session")
def goal(url) -> str:
    """The id of an intent of Ada's."""
    made = httpx.post(f"{url}/api/v1/intents", headers={"X-API-Key": AGENTS["agent.ada"]}, json={"title": "Research"})
    return made.raise_for_status().json()["id"]


@pytest.fixture(scope="session")
def grace(url):
    """A client with a person's own key."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": GRACE[1]}) as client:
        yield client


def let_in(url: str, operator: str, name: str) -> str:
    """Logs a person in with a one-time link, creates a key for the person's own program on the page, and returns it. A
    key that the operator makes for a person cannot answer questions."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": operator}) as admin:
        made = admin.post("/principals", json={"id": name, "kind": "human"})
        assert made.status_code in (201, 409), made.text
        link = admin.post(f"/people/{name}/links", json={}).raise_for_status().json()["path"]
    with httpx.Client(base_url=url, headers={"Sec-Fetch-Site": "same-origin"}) as browser:
        assert browser.post(link, data={}).status_code == 303
        token = re.search(r'name="token" value="([^"]+)"', browser.get("/terminal").text)[1]
        page = browser.post("/terminal", data={"token": token, "for": "program"})
    return re.search(r"ent_\w+", page.text)[0]


@pytest.fixture(scope="session")
def developer(url, operator):
    """A client of the person that `entente dev` asks questions without an explicit addressee."""
    key = let_in(url, operator, DEVELOPER)
    with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": key}) as client:
        yield client


# Tests about the whole run come last.
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("at_the_end") is not None)


def pytest_configure(config):
    config.addinivalue_line("markers", "at_the_end: runs after all other tests")
