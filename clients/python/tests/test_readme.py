# Every program of the client's README runs as it stands, and the one of the project's README.

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from entente import Entente, NotFoundError, operations
from people import choose, let_in

CLIENT = Path(__file__).parents[1]
# Programs by their headings.
PROGRAM = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", re.S | re.M)
PROGRAMS = dict(PROGRAM.findall((CLIENT / "README.md").read_text()))
PROJECT = dict(PROGRAM.findall((CLIENT.parents[1] / "README.md").read_text()))["Clients"]


@pytest.fixture
def start(server, tmp_path):
    """Starts a program of the README, with the key that `entente dev` prints for agents."""
    running = []

    def started(heading):
        path = tmp_path / f"{heading}.py"
        path.write_text((PROGRAMS | {"Clients": PROJECT})[heading])
        environment = os.environ | {"ENTENTE_URL": server.url, "ENTENTE_API_KEY": server.key, "PYTHONPATH": str(CLIENT / "src")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen([sys.executable, path], env=environment, **pipes))
        return running[-1]

    yield started
    for process in running:
        process.kill()
        process.communicate()


def said(process):
    """Waits for a program's end, and returns what it printed."""
    out, errors = process.communicate(timeout=40)
    assert process.returncode == 0, errors
    return out.split()


def stopped(process):
    process.send_signal(signal.SIGTERM)
    said(process)


@pytest.fixture
def ada(server):
    with Entente(server.url, server.key, "agent.ada") as client:
        yield client


def test_every_program_is_run():
    run = {
        "A message and its reply",
        "A stream",
        "A worker",
        "An agent of the ARCP SDK",
        "A lease",
        "A decision",
        "An agent",
        "Mail that proves its sender",
        "With asyncio, and every other operation",
    }
    assert set(PROGRAMS) == run


def test_what_ends_by_itself(start, server):
    # At once, because starting Python takes longer than the programs.
    programs = {heading: start(heading) for heading in ("A message and its reply", "A stream", "A lease", "Clients")}
    programs |= {heading: start(heading) for heading in ("Mail that proves its sender", "With asyncio, and every other operation")}
    found = {heading: said(program) for heading, program in programs.items()}
    assert found["A message and its reply"] == ["v2.3"]
    assert found["A stream"][-2:] == ["channel_message", "0"]
    assert found["A lease"][1:] == ["{'report':", "'draft'}"]
    assert found["Clients"] == ["{'summary':", "'draft'}"]
    assert found["Mail that proves its sender"] == ["sig"]
    assert len(found["With asyncio, and every other operation"]) == 1


def test_a_decision(start, server):
    key = let_in(server, "human.dev")
    program = start("A decision")
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": key}) as person:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            waiting = person.get("/moments/inbox").raise_for_status().json()["moments"]
            found = [one["id"] for one in waiting if one["binding_moment"]["question"]["stem"] == "When should it go out?"]
            if found:
                break
            time.sleep(0.05)
    choose(server.url, key, 1, found[0])
    assert said(program) == ["At", "six"]


def test_an_agent_of_the_arcp_sdk(start, ada):
    program = start("An agent of the ARCP SDK")
    end = time.monotonic() + 60
    while not any(one.name == "arcp-report" for one in ada.call(operations.list_inventory()).agents):
        assert program.poll() is None and time.monotonic() < end, program.communicate()
        time.sleep(0.05)
    assert ada.run_job("arcp-report", {"rows": 3}) == {"rows": 3}


def test_a_worker_and_an_agent(start, server, ada):
    worker, agent = start("A worker"), start("An agent")
    goal = ada.create_intent("Clarify")
    talk = ada.channels.open("data-clarification", goal.id)
    with Entente(server.url, server.key, "agent.data") as data:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                data.call(operations.get_inbox("agent.data"))
                break
            except NotFoundError:
                time.sleep(0.05)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(talk.ask("agent.data", {"question": "?"}, timeout=20).payload))
    asking.start()
    ada.assign_agent(goal.id, "agent.data")
    while not any(one.name == "reporter" for one in ada.call(operations.list_inventory()).agents):
        assert worker.poll() is None and time.monotonic() < end, worker.communicate()
        time.sleep(0.05)
    assert ada.run_job("reporter", {"rows": 3}) == {"rows": 3}
    progress = ada.channels.open("progress", goal.id)
    assert progress.read(None, wait=10).value[0].payload == {"status": "starting"}
    asking.join(20)
    assert answers == [{"answer": "v2.3"}]
    stopped(worker)
    stopped(agent)
