"""A worker in plain Python: runs jobs of the agent `reporter`, which writes a report with a given number of lines.

    ENTENTE_URL=http://127.0.0.1:8080 ENTENTE_API_KEY=… python3 examples/worker.py
    entente job submit --agent reporter --input '{"lines": 3}' --budget USD:1.00 --lease '{"tool.call":["write"]}' --follow

This is a complete worker. `entente worker` does the same for a command in any language.
"""

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone

URL = os.environ.get("ENTENTE_URL", "http://127.0.0.1:8080") + "/api/v1"
KEY = os.environ["ENTENTE_API_KEY"]
AGENT, VERSION = "reporter", "1.0.0"
held = {}  # claimed jobs by id: the claim's token, and whether the job is to stop
stopping = threading.Event()


class Refused(Exception):
    """A refusal by the server: ARCP's error code, and the message."""


def call(method, path, body):
    """Sends a request, and repeats it until the server accepts or refuses it."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers, method=method)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as refusal:
            if refusal.code < 500 and refusal.code != 429:
                why = json.loads(refusal.read())
                raise Refused(why["code"], why["message"]) from None
        except OSError:
            pass  # the server is unavailable: try again
        time.sleep(0.5)


def beat(worker):
    """Sends heartbeats, which extend the claims, and marks the jobs that are to stop."""
    while not stopping.is_set():
        jobs = [{"job_id": id, "claim_token": job["claim_token"]} for id, job in list(held.items())]
        body = {"state": "running", "jobs": jobs, "wait_sec": worker["heartbeat_interval_sec"]}
        heard = call("POST", f"/workers/{worker['worker_id']}/heartbeat", body)
        for id in heard["cancel"] + heard["lost"]:
            if id in held:
                held[id]["stop"] = True
        if heard["directive"] == "terminate":
            stopping.set()
        stopping.wait(0.5)


class Job:
    """A claimed job: sends its agent's events to the server in order, with the claim's token."""

    def __init__(self, claimed):
        self.id, self.token, self.input = claimed["job_id"], claimed["claim_token"], claimed["input"] or {}
        self.result_id, self.attempt, self.said = claimed["result_id"], claimed["attempt"], 0
        held[self.id] = {"claim_token": self.token, "stop": False}

    def post(self, verb, **body):
        return call("POST", f"/jobs/{self.id}/{verb}", {"claim_token": self.token, **body})

    def say(self, kind, **body):
        # With this key a repeated request counts once.
        self.said += 1
        moment = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        event = {"kind": kind, "ts": moment, "body": body, "event_key": f"{self.attempt}-{self.said}"}
        if self.post("events", events=[event])["cancel_requested"]:
            held[self.id]["stop"] = True


def stopped(job):
    """Reports that a cancelled job has ended."""
    return job.post("error", code="CANCELLED", message="stopped as asked", retryable=False)


def report(job):
    """The agent: requests authority for each line, reports progress and costs, and streams the report."""
    lines = int(job.input.get("lines", 3))
    for number in range(lines):
        if held[job.id]["stop"]:
            return stopped(job)
        try:
            job.post("authorize", capability="tool.call", target="write", call_id=f"c{number}")
        except Refused as no:
            if no.args[0] == "CANCELLED":  # since the last look at `stop`
                return stopped(job)
            if no.args[0] not in ("PERMISSION_DENIED", "BUDGET_EXHAUSTED"):
                raise
            lines = number  # the job continues: the report ends here
            break
        time.sleep(float(job.input.get("pause", 0)))
        job.say("metric", name="cost.writing", value=0.25, unit="USD")
        job.say("progress", current=number + 1, total=lines, units="lines")
        chunk = {"result_id": job.result_id, "chunk_seq": number, "encoding": "utf8", "more": True}
        job.say("result_chunk", data=f"line {number + 1}\n", **chunk)
    job.say("result_chunk", result_id=job.result_id, chunk_seq=lines, data="end\n", encoding="utf8", more=False)
    return job.post("result", result_id=job.result_id, summary=f"{lines} lines")


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    call("PUT", f"/arcp/agents/{AGENT}/versions/{VERSION}", {})
    worker = call("POST", "/workers", {"name": "worker.py", "agents": [f"{AGENT}@{VERSION}"], "slots": 1, "labels": {}})
    threading.Thread(target=beat, args=[worker], daemon=True).start()
    while not stopping.is_set():
        for claimed in call("POST", "/jobs/claim", {"worker_id": worker["worker_id"], "max": 1, "wait_sec": 2})["jobs"]:
            job = Job(claimed)
            try:
                report(job)
            except Refused as lost:  # the claim was lost, or the job is over
                print(f"{job.id}: {lost}", flush=True)
            del held[job.id]
    call("POST", f"/workers/{worker['worker_id']}/leave", {})


if __name__ == "__main__":
    main()
