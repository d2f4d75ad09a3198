# What the tests of the frameworks share: a person who answers, and agents in processes of their own.

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import stub_model  # noqa: E402
from human import Human, Started  # noqa: E402
from server import AGENTS  # noqa: E402


@pytest.fixture
def human(server):
    return Human(server)


@pytest.fixture
def ledger(tmp_path):
    """Where the agents' tool writes what it has paid."""

    class Ledger:
        path = tmp_path / "ledger"

        @property
        def paid(self):
            return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    return Ledger()


@pytest.fixture(scope="session")
def model():
    """A model on loopback."""
    with stub_model.serving() as found:
        yield found


@pytest.fixture(autouse=True)
def environment(server, model, monkeypatch):
    """The settings that a user of the client has."""
    monkeypatch.setenv("STUB_URL", model.url)
    # Nothing is told to anybody else.
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("ENTENTE_URL", server.url)
    monkeypatch.setenv("ENTENTE_API_KEY", AGENTS["agent.ada"])


@pytest.fixture
def start():
    return Started


@pytest.fixture
def spawn(server, ledger):
    """Starts an agent in a process of its own."""
    running = []

    def started(name, person, run, prompt):
        command = [sys.executable, "-m", "programs", name, person, run, prompt, str(ledger.path)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1] / "src")])}
        running.append(subprocess.Popen(command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield started
    for process in running:
        process.kill()
        process.communicate()
