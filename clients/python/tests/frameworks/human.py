# A person who answers over REST, and what runs beside a test.

import threading
import time
import uuid

import httpx
from people import let_in

# Seconds after which a test is lost.
LIMIT = 120

RUN, LEAVE = {"kind": "option", "option_idx": 0}, {"kind": "option", "option_idx": 1}


class Human:
    """A person, who answers over REST with a key of their own."""

    def __init__(self, server, name=None):
        self.name = name or f"human.{uuid.uuid4().hex[:8]}"
        self.http = httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": let_in(server, self.name)}, timeout=30)

    def asked(self):
        """All questions that were ever put to them, oldest first."""
        found = self.http.get("/moments", params={"limit": 100}).raise_for_status().json()["moments"]
        return sorted(found, key=lambda one: one["id"])

    def waiting(self, count=1):
        """The open questions, once there are so many."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            found = [one for one in self.asked() if one["state"] == "open"]
            if len(found) >= count:
                assert len(found) == count, found
                return found
            time.sleep(0.05)
        raise AssertionError(f"{count} questions did not come: {self.asked()}")

    def answer(self, moment, resolution):
        body = {"envelope_digest": moment["envelope_digest"], "resolution": resolution}
        self.http.post(f"/moments/{moment['id']}/resolution", json=body).raise_for_status()

    def say(self, moment, words):
        self.answer(moment, {"kind": "free_text", "answer": words})

    def refuse(self, moment, objection):
        self.answer(moment, {"kind": "dialogue", "objection": objection})


class Started:
    """What runs in the background."""

    def __init__(self, action):
        self.found, self.wrong = None, None
        self.thread = threading.Thread(target=self._run, args=[action], daemon=True)
        self.thread.start()

    def _run(self, action):
        try:
            self.found = action()
        except BaseException as wrong:
            self.wrong = wrong

    def result(self, seconds=LIMIT):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "it still runs"
        if self.wrong is not None:
            raise self.wrong
        return self.found


def ended(process):
    """Waits for the end of a process, and returns what it printed last."""
    out, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, errors
    return out.strip().splitlines()[-1]
