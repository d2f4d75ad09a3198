# The Python and JavaScript SDKs of A2A, unmodified, over both bindings: send, stream, ask back, follow, cancel, list, refusals.

import json
import os
import subprocess
from pathlib import Path

import pytest
from a2a_kit import AGENT, talker
from conftest import AGENTS, SERVICE

HERE = Path(__file__).parent / "a2a"
PYTHON = Path(__file__).parents[2] / ".venv" / "a2a" / "bin" / "python"
MODULES = HERE / "node_modules"
BINDINGS = ["JSONRPC", "HTTP+JSON"]


@pytest.fixture(scope="module")
def modules() -> Path:
    """The packages of package-lock.json."""
    stamp = MODULES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)
    return MODULES


@pytest.fixture(scope="module", autouse=True)
def working(url):
    with talker(url, SERVICE):
        yield


def run(url: str, agent: str, command: list) -> dict:
    environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": AGENTS[agent], "A2A_AGENT": AGENT}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(seen: dict):
    assert seen["card"] == [AGENT, BINDINGS]
    echo = seen["echo"]
    assert echo["status"]["state"] == "TASK_STATE_COMPLETED"
    assert echo["status"]["message"]["parts"][0]["text"] == "echoed"
    assert echo["artifacts"][0]["parts"][0]["data"] == {"said": "echo hello"}
    assert echo["history"][0]["parts"][0]["text"] == "echo hello"
    assert seen["same"] == [True, 1, True]
    begin, *steps = seen["stream"]
    assert begin[0] == "task" and steps[-1] == ["status_update", "COMPLETED"]
    chunks = [step for step in steps if step[0] == "artifact_update"]
    assert [chunk[1:] for chunk in chunks] == [["one ", False, False], ["two ", True, False], ["three", True, True]]
    assert ["status_update", "WORKING"] in steps
    assert seen["asked"] == ["status_update", "INPUT_REQUIRED"]
    assert seen["booked"] == ["TASK_STATE_COMPLETED", "booked Oslo", True]
    assert seen["declined"] == "TASK_STATE_REJECTED"
    assert seen["followed"][0][0] == "task" and seen["followed"][-1] == ["status_update", "CANCELED"]
    assert seen["cancelled"] == "TASK_STATE_CANCELED"
    *refused, malformed = seen["refused"]
    assert refused == [
        "TaskNotFoundError",
        "TaskNotCancelableError",
        "UnsupportedOperationError",
        "UnsupportedOperationError",
    ]
    # A receiver in the operator's network; the SDKs have names of their own for it.
    assert malformed in {"InvalidParamsError", "RequestMalformedError"}


@pytest.mark.parametrize(("binding", "agent"), [("JSONRPC", "agent.ada"), ("HTTP+JSON", "agent.bob")])
def test_the_python_sdk_talks_to_an_agent(url, binding, agent):
    seen = run(url, agent, [PYTHON, HERE / "client.py", binding])
    check(seen)
    kinds, headers, listed, address, gone = seen["pushed"]
    # The receiver is there before a worker takes the task; a stream may begin later.
    steps = seen["stream"][1:]
    assert kinds[0] == ["status_update", "WORKING"] and kinds[-len(steps) :] == steps
    assert headers == ["application/a2a+json", "mine", "Bearer secret"]
    assert (listed, address, gone) == ([False, True], "https://example.com/", "TaskNotFoundError")
    pages, found, total = seen["listed"]
    assert found == total >= 5 and pages == (total + 1) // 2


def test_the_python_sdk_talks_to_an_agent_in_0_3(url):
    seen = run(url, "agent.eve", [PYTHON, HERE / "client.py", "0.3"])
    assert seen["transport"] == "CompatJsonRpcTransport"
    assert seen["events"][0][0] == "task" and seen["events"][-1] == ["status_update", "COMPLETED"]
    assert seen["task"]["artifacts"][0]["parts"][0]["data"] == {"said": "echo hello"}
    assert seen["task"]["history"][0]["parts"][0]["text"] == "echo hello"
    assert seen["refused"] == "TaskNotCancelableError"


@pytest.mark.parametrize("binding", BINDINGS)
def test_the_javascript_sdk_talks_to_an_agent(url, modules, binding):
    seen = run(url, "agent.eve", [modules / ".bin" / "node", HERE / "client.mjs", binding])
    check(seen)
    assert seen["listed"] >= 5
