# A real server in its own process, with a private PostgreSQL in a directory that outlives it, so that it can be restarted.

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "target" / "debug" / "entente"
START_LIMIT = 60.0
STOP_LIMIT = 30.0
# Agents, each with the key that it calls with.
AGENTS = {"agent.ada": "the-key-of-ada", "agent.bob": "the-key-of-bob", "agent.eve": "the-key-of-eve"}
# The tokens in those examples.
DEMO = {"demo-principal": "demo-token", "principal-b": "demo-token-b"}
# What the examples of ARCP's Python SDK set their runtimes to; claims end soon, for the tests that kill workers, and not so
# soon that workers on a busy machine lose them.
ARCP_SETTINGS = {
    "ENTENTE_ARCP_TOKEN_SECRET": "demo-shared-secret",
    "ENTENTE_ARCP_HEARTBEAT_SECONDS": "5",
    "ENTENTE_ARCP_OPEN_POLICY": "subscribe",
    "ENTENTE_CREDENTIALS": "development",
    "ENTENTE_CLAIM_SECONDS": "10",
}


class Server:
    """`entente dev`, with a key for each agent."""

    def __init__(self, home, settings):
        self.home, self.settings = Path(home), settings
        self.url = self.operator = self.key = ""
        self.process = None

    def start(self):
        assert PROGRAM.exists(), "build it first: cargo build"
        ours = ("DATABASE_URL", "ENTENTE_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        if programs := os.environ.get("ENTENTE_PG_BIN"):
            environment["ENTENTE_PG_BIN"] = programs
        seeds = [f"--seed=agent:{agent}={key}" for agent, key in (AGENTS | DEMO).items()]
        with open(self.home / "log", "a") as errors:
            self.process = subprocess.Popen(
                [PROGRAM, "dev", "--bind", "127.0.0.1:0", "--data-dir", "data", *seeds],
                cwd=self.home,
                env=environment | {"ENTENTE_REFUSED_SUBSCRIBE_SECONDS": "0"} | self.settings,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C goes only to the tests, which then stop the server in order.
                start_new_session=True,
            )
        too_long = threading.Timer(START_LIMIT, self.process.kill)
        too_long.start()
        self.url = ""
        for line in self.process.stdout:
            self.url = line.partition("export ENTENTE_URL=")[2].strip() or self.url
            self.key = line.partition("export ENTENTE_API_KEY=")[2].strip() or self.key
            if key := line.partition("ENTENTE_OPERATOR_KEY=")[2].strip():
                self.operator = key
                break
        too_long.cancel()
        assert self.url, (self.home / "log").read_text()
        self._wait()
        return self

    def _wait(self):
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            with contextlib.suppress(OSError, urllib.error.HTTPError):
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return
            time.sleep(0.05)
        raise AssertionError((self.home / "log").read_text())

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            # It lets requests end. A second signal ends them at once.
            self.process.wait(0.3)
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT)
        finally:
            self.process.kill()
            self.process.stdout.close()


@contextlib.contextmanager
def serving(**settings):
    with tempfile.TemporaryDirectory(prefix="entente-python-") as home:
        # When the tests run as root, PostgreSQL runs as another user, which needs access.
        os.chmod(home, 0o755)
        server = Server(home, settings)
        try:
            yield server.start()
        finally:
            if server.process is not None:
                server.stop()
