"""Entente's side: the same work, on the same machine, in the same run."""

import contextlib
import json
import os
from pathlib import Path

import kit

# The key that the load generator uses.
KEY = "bench-key"


class Entente:
    """A running server."""

    def __init__(self, url: str, place: Path):
        self.url, self.place = url, place
        self.port = int(url.rsplit(":", 1)[1])

    def ask(self, path: str, body):
        """Sends a POST request."""
        return kit.ask("POST", f"{self.url}/api/v1{path}", body, {"x-api-key": KEY})

    def shoot(self, path: str, body) -> kit.Result:
        """Sends the same request over and over."""
        return kit.shoot(self.place, self.port, kit.post(f"/api/v1{path}", body, {"x-api-key": KEY}))

    def sends(self) -> kit.Result:
        """Messages to one channel."""
        intent = self.ask("/intents", {"title": "peers"})["id"]
        ask = {"name": "peers", "options": {"max_messages": 1_000_000}}
        channel = self.ask(f"/intents/{intent}/channels", ask)["id"]
        message = {"sender": "agent-0", "payload": {"text": kit.TEXT}}
        return self.shoot(f"/channels/{channel}/messages", message)

    def events(self) -> kit.Result:
        """Events posted to one intent."""
        intent = self.ask("/intents", {"title": "peers"})["id"]
        return self.shoot(f"/intents/{intent}/events", {"event_type": "note", "payload": {"text": kit.TEXT}})

    def cycles(self) -> kit.Result:
        """Jobs: submitted, claimed by workers over HTTP, kept alive, and completed."""
        return kit.loaded([kit.LOAD, "cycle", f"127.0.0.1:{self.port}", json.dumps({"text": kit.TEXT}), *kit.trial()])


# Entente's works by their names, with what the table says of them.
WORKS = {
    "sends": (Entente.sends, "messages to one channel"),
    "events": (Entente.events, "events into one intent"),
    "cycles": (Entente.cycles, "job cycles, one request per step, 4 workers"),
}


@contextlib.contextmanager
def started(place: Path, database: str):
    """Runs the server until the block ends."""
    # Neither the developer's database nor the `.env` beside the sources applies.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABASE_URL", "ENTENTE_"))}
    settings = {"DATABASE_URL": database, "ENTENTE_LOG": "warn"}
    words = [kit.ENTENTE, "dev", "--bind", "127.0.0.1:0", "--seed", f"service:bench={KEY}", "--data-dir", place]
    with kit.running(words, place / "entente.log", env=kept | settings, cwd=place) as process:
        yield Entente(kit.wait(process, lambda: kit.said(process, "export ENTENTE_URL=")), place)


def version() -> str:
    """Returns the server's version."""
    return kit.called([kit.ENTENTE, "--version"]).split()[-1]
