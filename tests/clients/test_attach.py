# Attached LLM hosts: their real programs, with a model on loopback. Hooks show what reached the agent, once each.

import functools
import re
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
from conftest import AGENTS
from hosts_kit import MODULES, Host, Terminal, modelling

HERE = Path(__file__).parent / "hosts"
ADA, BOB, EVE = "agent.ada", "agent.bob", "agent.eve"
HOSTS = ["claude", "codex"]


@pytest.fixture(scope="session", autouse=True)
def hosts() -> Path:
    """The hosts of package-lock.json."""
    stamp = MODULES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)
    return MODULES


@pytest.fixture
def model():
    with modelling() as (model, url):
        model.url = url
        yield model
        assert not model.strayed, str(model.strayed)


@functools.cache
def client(url: str, agent: str) -> httpx.Client:
    return httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": AGENTS[agent]}, timeout=60)


@pytest.fixture
def talk(url) -> str:
    """The id of a channel of Ada's with Bob and Eve; Bob's inbox is new."""
    ada, bob = client(url, ADA), client(url, BOB)
    bob.delete(f"/agents/{BOB}/inbox")
    bob.get(f"/agents/{BOB}/inbox").raise_for_status()
    intent = ada.post("/intents", json={"title": "Research"}).raise_for_status().json()["id"]
    channel = {"name": "talk", "members": [BOB, EVE]}
    return ada.post(f"/intents/{intent}/channels", json=channel).raise_for_status().json()["id"]


def say(url: str, channel: str, *numbers: int, sender: str = ADA, to: str = BOB, kind: str = "request") -> None:
    """Sends a message for each number."""
    messages = [{"sender": sender, "to": to, "message_type": kind, "payload": {"n": n}} for n in numbers]
    done = client(url, sender).post(f"/channels/{channel}/messages/batch", json={"messages": messages})
    assert done.raise_for_status().json()["sent"] == len(numbers), done.text


def newest(url: str) -> int:
    return client(url, BOB).get(f"/agents/{BOB}/inbox/settings").raise_for_status().json()["newest"]


def wait_until_arrived(url: str, count: int) -> None:
    end = time.monotonic() + 60
    while newest(url) < count:
        assert time.monotonic() < end, "messages did not reach the inbox"
        time.sleep(0.05)


def shown(model) -> list[int]:
    """Returns the numbers of the messages that the model was shown, in all sessions, as often as it was."""
    texts = [text for session in model.sessions().values() for text in session]
    return [int(n) for text in texts for n in re.findall(r'\{"n":(\d+)\}', text)]


@pytest.mark.parametrize("name", HOSTS)
def test_a_turn_shows_what_came_before_during_and_at_its_end(url, talk, model, tmp_path, name):
    host = Host(name, tmp_path, url, AGENTS[BOB], model.url)
    host.attach("install", name)
    say(url, talk, 1)
    wait_until_arrived(url, 1)

    def says(request) -> str:
        # The first request of the turn: something comes while the model thinks.
        if not any("more" in text for text in sent):
            sent.append("more")
            say(url, talk, 2, 3)
            wait_until_arrived(url, 3)
        return "Done."

    sent: list[str] = []
    model.says = says
    session = host.turn("Hello")
    assert sorted(shown(model)) == [1, 2, 3]
    # The first request had the first message, and the end of the turn the others.
    first, second = model.heard[0][1], model.heard[1][1]
    assert '{"n":1}' in "".join(first) and '{"n":2}' not in "".join(first)
    assert '{"n":3}' in "".join(second)
    say(url, talk, 4)
    wait_until_arrived(url, 4)
    host.turn("Go on", session)
    assert sorted(shown(model)) == [1, 2, 3, 4]


class Burst:
    """Messages of several senders at once, around the end of a turn: the model ends its turn when half of them are sent."""

    SENDERS = 4
    STEP = 50

    def __init__(self, url: str, channel: str, numbers: range):
        self.half = threading.Event()
        self.left = list(numbers)
        self.most = len(numbers) // 2
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.send, args=(url, channel, n)) for n in range(self.SENDERS)]

    def send(self, url: str, channel: str, sender: int) -> None:
        while True:
            with self.lock:
                numbers, self.left = self.left[: self.STEP], self.left[self.STEP :]
                if len(self.left) <= self.most:
                    self.half.set()
            if not numbers:
                return
            kind = ["request", "notify"][sender % 2]
            say(url, channel, *numbers, sender=[ADA, EVE][sender // 2], kind=kind)

    def begin(self) -> None:
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()
        self.half.wait()

    def end(self) -> float:
        for thread in self.threads:
            thread.join()
        return time.monotonic() - self.began


@pytest.mark.parametrize("name", HOSTS)
def test_10000_messages_around_the_ends_of_turns_are_seen_once(url, talk, model, tmp_path, name):
    host = Host(name, tmp_path, url, AGENTS[BOB], model.url)
    host.attach("install", name)
    total, each, per_session = 10_000, 500, 4
    bursts = [Burst(url, talk, range(first, first + each)) for first in range(0, total, each)]
    waiting = iter(bursts)
    begins = threading.Event()

    def says(request) -> str:
        if begins.is_set():
            begins.clear()
            if burst := next(waiting, None):
                burst.begin()
        return "Done."

    model.says = says
    session, turns, seconds = "", 0, []
    while len(set(shown(model))) < total or turns < len(bursts):
        assert turns < 60, f"{total - len(set(shown(model)))} were not seen"
        begins.set()
        # Every few turns another session goes on where the last one ended.
        session = host.turn("Go on", session if turns % per_session else "")
        if turns < len(bursts):
            seconds.append(bursts[turns].end())
            wait_until_arrived(url, (turns + 1) * each)
        turns += 1
    print(f"{name}: {turns} turns, bursts of {each} in {min(seconds):.1f} to {max(seconds):.1f} s")
    counts = sorted(shown(model))
    assert counts == list(range(total)), f"{len(counts)} were shown"


# The name of a tool of Entente, as each host's model calls it.
NAMES = {"claude": "mcp__entente__{}".format, "codex": lambda tool: ("mcp__entente", tool)}
# Nobody is there to approve a call.
APPROVED = {
    "claude": ["--allowedTools", "mcp__entente"],
    "codex": ["-c", 'mcp_servers.entente.default_tools_approval_mode="approve"'],
}


@pytest.mark.parametrize("name", HOSTS)
def test_a_model_calls_tools_and_hears_at_its_next_step(url, talk, model, tmp_path, name):
    host = Host(name, tmp_path, url, AGENTS[BOB], model.url)
    host.attach("install", name)
    calls = [
        ("whoami", {}),
        ("send_message", {"channel": talk, "to": ADA, "payload": {"n": 77}}),
    ]
    said: list = []

    def says(request):
        if len(said) == len(calls):
            return "Done."
        tool, arguments = calls[len(said)]
        said.append(tool)
        if tool == "send_message":
            # It comes while the turn is at work, so the next step shows it.
            say(url, talk, 5)
            wait_until_arrived(url, 1)
        return NAMES[name](tool), arguments

    model.says = says
    host.turn("Hello", "", *APPROVED[name])
    assert said == ["whoami", "send_message"]
    texts = "".join(model.heard[2][1])
    assert BOB in texts and '{"n":5}' in texts, texts[-3000:]
    assert shown(model).count(5) == 1
    sent = client(url, ADA).get(f"/channels/{talk}/messages").raise_for_status().json()
    sent = sent if isinstance(sent, list) else sent["messages"]
    assert [m["payload"] for m in sent if m["sender"] == BOB] == [{"n": 77}]


def until(true, what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.05)


def output(*command: str) -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def seen_by(url: str) -> dict[str, int]:
    """Returns the places of the readers of Bob's inbox."""
    readers = client(url, BOB).get(f"/agents/{BOB}/inbox/settings").raise_for_status().json()["readers"]
    return {reader["reader"]: reader["place"] for reader in readers}


def test_a_request_wakes_an_idle_session(url, talk, model, tmp_path):
    host = Host("claude", tmp_path, url, AGENTS[BOB], model.url)
    host.attach("install", "claude")
    terminal = Terminal(host)
    try:
        until(lambda: "❯" in terminal.text(), lambda: terminal.text())
        terminal.type("Hello")
        until(lambda: "Hello" in terminal.text(), lambda: terminal.text())
        terminal.type("\r")
        until(lambda: model.heard, lambda: terminal.text())
        until(lambda: "claude:" in str(seen_by(url)), "the hooks do not run")
        asked = len(model.heard)
        # What waits for the next step wakes nobody, but comes along.
        say(url, talk, 8, kind="notify")
        wait_until_arrived(url, 1)
        say(url, talk, 9)
        until(lambda: sorted(shown(model)) == [8, 9], lambda: terminal.text())
        assert all('{"n":8}' not in "".join(texts) for _, texts in model.heard[:asked])
        # The end of the turn that this woke confirms it.
        until(lambda: max(seen_by(url).values()) == 2, f"not marked: {seen_by(url)}")
        say(url, talk, 10)
        until(lambda: sorted(shown(model)) == [8, 9, 10], lambda: terminal.text())
    finally:
        terminal.end()
    # Nothing of the session is left.
    until(lambda: f"--url {url}" not in output("ps", "-eo", "args"), lambda: output("ps", "-eo", "args"))
