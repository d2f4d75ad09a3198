"""OpenIntent's reference server, from PyPI, on its SQLite."""

import contextlib
import sys

import kit

NAME = "OpenIntent's server"
KEY = "peers-key"


def version(_stage) -> str:
    return kit.pypi_version("openintent")


@contextlib.contextmanager
def works(stage):
    port, file = kit.free_port(), stage.place / "openintent.db"
    words = [sys.executable, "-m", "openintent.server", "--host", "127.0.0.1", "--port", port]
    words += ["--database-url", f"sqlite:///{file}", "--api-keys", KEY, "--log-level", "warning"]
    with kit.running(words, stage.place / "openintent.log", cwd=stage.place) as process:
        kit.wait(process, lambda: kit.listens(port))
        headers, url = {"x-api-key": KEY}, f"http://127.0.0.1:{port}/api/v1"
        ask = {"title": "peers", "description": "peers", "created_by": "agent-0"}
        intent = kit.ask("POST", f"{url}/intents", ask, headers)["id"]
        event = {"event_type": "comment", "actor": "agent-0", "payload": {"text": kit.TEXT}}
        request = kit.post(f"/api/v1/intents/{intent}/events", event, headers)
        yield [
            kit.Work(
                "event posted to one intent",
                "SQLite with its usual settings (journal, synchronous FULL)",
                "events",
                lambda: kit.shoot(stage.place, port, request),
                "events, because this server keeps the messages of channels in memory only",
            )
        ]
