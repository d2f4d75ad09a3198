# An ARCP worker that A2A's clients talk to, over plain REST: it echoes, streams, asks back, declines, and waits to be cancelled.

import contextlib
import threading

import httpx

AGENT = "talker"


def events(*bodies: dict) -> dict:
    return {"events": [{"kind": kind, "body": rest} for kind, rest in ((body.pop("kind"), body) for body in bodies)]}


class Talker:
    """Runs jobs of the agent, each by the first word of its message."""

    def __init__(self, url: str, key: str):
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": key}, timeout=60)
        self.http.put(f"/arcp/agents/{AGENT}/versions/1.0.0", json={}).raise_for_status()
        body = {"name": AGENT, "agents": [f"{AGENT}@1.0.0"], "slots": 8}
        self.worker = self.http.post("/workers", json=body).raise_for_status().json()["worker_id"]
        self.stopping = False

    def run(self):
        while not self.stopping:
            claim = {"worker_id": self.worker, "max": 4, "wait_sec": 1}
            for job in self.http.post("/jobs/claim", json=claim).raise_for_status().json()["jobs"]:
                threading.Thread(target=self.work, args=[job], daemon=True).start()

    def tell(self, job: dict, what: str, body: dict) -> dict:
        body["claim_token"] = job["claim_token"]
        return self.http.post(f"/jobs/{job['job_id']}/{what}", json=body).raise_for_status().json()

    def work(self, job: dict):
        text = job["input"]["text"]
        getattr(self, text.split()[0])(job, text)

    def echo(self, job, text):
        self.tell(job, "result", {"result": {"said": text}, "summary": "echoed"})

    def stream(self, job, _):
        self.tell(job, "events", events({"kind": "status", "phase": "running", "message": "begun"}))
        for n, (data, more) in enumerate([("one ", True), ("two ", True), ("three", False)]):
            chunk = {"result_id": job["result_id"], "chunk_seq": n, "data": data, "encoding": "utf8", "more": more}
            self.tell(job, "events", events({"kind": "result_chunk", **chunk}))
        self.tell(job, "result", {"result_id": job["result_id"]})

    def ask(self, job, _):
        self.tell(job, "events", events({"kind": "status", "phase": "input_required", "message": "Where to?"}))
        said = self.tell(job, "signals/wait", {"wait_sec": 30})["signals"][0]["payload"]["text"]
        self.tell(job, "events", events({"kind": "status", "phase": "running", "message": "booking"}))
        self.tell(job, "result", {"result": {"parts": [{"text": f"booked {said}"}]}})

    def decline(self, job, _):
        details = {"rejected": True}
        self.tell(job, "error", {"code": "PERMISSION_DENIED", "message": "not my work", "details": details})

    def wait(self, job, _):
        while not self.tell(job, "signals/wait", {"wait_sec": 30})["cancel_requested"]:
            pass
        self.tell(job, "error", {"code": "CANCELLED", "message": "stopped"})


@contextlib.contextmanager
def talker(url: str, key: str):
    """Runs the worker beside the tests."""
    worker = Talker(url, key)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    yield worker
    worker.stopping = True
    thread.join(10)
