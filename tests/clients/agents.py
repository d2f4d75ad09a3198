# Agents for the tests of jobs: the command that `entente worker` runs for each job. The environment names the agent;
# the job's input is a line of JSON on standard input.

import json
import os
import signal
import sys
import time


def say(**line):
    print(json.dumps(line), flush=True)


def event(kind, **body):
    say(kind=kind, body=body)


def ask(**question):
    say(authorize=question)
    return json.loads(sys.stdin.readline())


def echo(job):
    event("log", level="info", message="echo started")
    return {"echoed": job, "by": os.environ["ENTENTE_AGENT"]}


def sleeper(job):
    """Sleeps until it is terminated, and exits cleanly then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    event("status", phase="asleep")
    time.sleep(job.get("seconds", 60) if isinstance(job, dict) else 60)
    return "awake"


def chatty(job):
    """Emits one event of each kind, exactly as the SDKs' agents write them."""
    for kind, body in job["events"]:
        event(kind, **body)
    return "said"


def counter(job):
    for number in range(job["to"]):
        event("log", level="info", message=str(number))
        time.sleep(job.get("pause", 0))
    return job["to"]


def streamer(job):
    """Streams its result in parts; `closes` adds an empty last one in the default encoding, as the SDK's streams do."""
    result_id, parts = os.environ["ENTENTE_RESULT_ID"], job["parts"]
    for number, part in enumerate(parts):
        more = number + 1 < len(parts) or job.get("closes", False)
        event("result_chunk", result_id=result_id, chunk_seq=number, data=part, encoding=job["encoding"], more=more)
    if job.get("closes"):
        event("result_chunk", result_id=result_id, chunk_seq=len(parts), data="", encoding="utf8", more=False)
    return "streamed"


def large(job):
    """Returns more than fits in one message."""
    return "é" * job["letters"]


def spender(job):
    """Asks for authority before each call, reports the cost afterwards, and continues after a refusal."""
    said = []
    for number, (tool, cost) in enumerate(job["calls"]):
        answer = ask(capability="tool.call", target=tool, call_id=f"c{number}")
        said.append(answer["decision"] if answer["decision"] == "allow" else answer["code"])
        if answer["decision"] == "allow":
            event("metric", name="cost.tool", value=cost, unit="USD")
    return said


def failing(_job):
    say(error={"code": "PERMISSION_DENIED", "message": "the door is locked", "details": {"door": 7}})


def crashing(_job):
    sys.exit("it broke")


if __name__ == "__main__":
    agent = os.environ["ENTENTE_AGENT"].partition("@")[0]
    result = globals()[agent](json.loads(sys.stdin.readline()))
    if agent != "failing":
        say(result=result)
