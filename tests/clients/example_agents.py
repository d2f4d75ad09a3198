# The agents that the examples of ARCP's Python SDK submit jobs to, as the command of one `entente worker`: each does what
# the agent in its example's server.py does.

import asyncio
import json
import os
import sys
import time

from agents import ask, event, say

PATIENCE = 20.0


def log(message):
    event("log", level="info", message=message)


def echo(job):
    event("status", phase="starting")
    log("fetching")
    event("thought", text="I should fetch it first")
    event("tool_call", call_id="c1", tool="fetch", args={"url": "x://"})
    event("tool_result", call_id="c1", result={"bytes": 42})
    event("metric", name="tokens.in", value=12, unit="tokens")
    event("artifact_ref", artifact_id="a1", uri="memory://r", media_type="text/plain")
    event("status", phase="complete")
    return {"echoed": job}


def chatty(_job):
    for number in range(120):
        log(f"chunk {number}")
        time.sleep(0.005)


def summarize(_job):
    return {"version": os.environ["ENTENTE_AGENT"].partition("@")[2]}


def patient(_job):
    for number in range(100):
        log(f"tick {number}")
        time.sleep(0.2)


def caller(_job):
    for number in range(1, 11):
        if ask(capability="cost.budget", target="USD", call_id=f"c{number}")["decision"] != "allow":
            return {"calls": number - 1}
        event("metric", name="cost.openai", value=0.30, unit="USD")
    raise AssertionError("the budget was never spent")


def parent(_job):
    """Has its child made in a session of its own, and tells of it by the event: the client's lease delegates nothing, so
    an event that asks for a child (ARCP-W-5.6) would be refused."""
    return asyncio.run(asyncio.wait_for(delegated(), PATIENCE))


async def delegated():
    # Only here, because it takes a second, and all other agents begin at once.
    from arcp import ClientInfo, WebSocketTransport
    from arcp.client import ARCPClient

    trace, info = os.environ["ENTENTE_TRACE_ID"], ClientInfo(name="delegate-parent", version="1.0.0")
    client = ARCPClient(client=info, token=os.environ["DELEGATE_TOKEN"], features=())
    await client.connect(await WebSocketTransport.connect(os.environ["EXAMPLES_URL"]))
    try:
        me = os.environ["ENTENTE_JOB_ID"]
        child = await client.submit(agent="child", input={"from": "parent"}, trace_id=trace, parent_job_id=me)
        event("delegate", child_job_id=child.job_id, agent="child")
        result = await child.done
    finally:
        await client.close()
    return {"parent_trace": trace, "child_trace": result.result["trace_id"]}


def child(job):
    log("child running")
    return {"child_done": job == {"from": "parent"}, "trace_id": os.environ["ENTENTE_TRACE_ID"]}


def long(_job):
    # Longer than two intervals of heartbeats.
    time.sleep(11)


def slow(_job):
    for number in range(12):
        log(f"step {number}")
        time.sleep(0.3)


def cautious(_job):
    log(ask(capability="fs.write", target="/etc/passwd", call_id="c1")["decision"])


def hold(_job):
    time.sleep(2)


def report(job):
    for number in range(1, job["steps"] + 1):
        event("progress", current=number, total=job["steps"], units="steps")


def model_user(job):
    answer = ask(capability="model.use", target=job["model"])
    assert answer["decision"] == "allow", answer
    return {"model": job["model"], "credential_count": len(json.loads(os.environ["ENTENTE_CREDENTIALS"]))}


def report_builder(job):
    result_id = os.environ["ENTENTE_RESULT_ID"]
    for number in range(job["chunks"]):
        data = f"Section {number + 1}: lorem ipsum dolor sit amet.\n"
        event("result_chunk", result_id=result_id, chunk_seq=number, data=data, encoding="utf8", more=True)
    event("result_chunk", result_id=result_id, chunk_seq=job["chunks"], data="", encoding="utf8", more=False)


def vendor(_job):
    event("status", phase="starting")
    for number in range(3):
        event("x-vendor.acme.progress", i=number, total=3)


if __name__ == "__main__":
    agent = os.environ["ENTENTE_AGENT"].partition("@")[0].replace("-", "_")
    result = globals()[agent](json.loads(sys.stdin.readline()))
    if agent != "report_builder":
        say(result=result)
