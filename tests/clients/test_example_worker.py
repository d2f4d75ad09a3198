# examples/worker.py, the sample worker in plain Python, works as documented.

import sys
import urllib.request
from pathlib import Path

import pytest
from arcp_kit import ADA, rest, running
from conftest import SERVICE
from kit import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "worker.py"


@pytest.fixture(scope="module")
def served(url):
    with running([sys.executable, EXAMPLE], url, SERVICE):
        agents = lambda: any(agent["name"] == "reporter" for agent in rest(url, ADA, "GET", "/arcp/agents")["agents"])
        eventually(agents, "the worker's agent")
        yield url


def submit(url: str, **asked) -> dict:
    lease = {"tool.call": ["write"]} | asked.pop("lease", {})
    return rest(url, ADA, "POST", "/jobs", {"agent": "reporter", "lease_request": lease, **asked})


def ended(url: str, job: dict) -> dict:
    over = ("success", "error", "cancelled", "timed_out")

    def look():
        described = rest(url, ADA, "GET", f"/jobs/{job['job_id']}")
        return described if described["current_status"] in over else None

    return eventually(look, "the job's end")


def report(url: str, job: dict) -> str:
    request = urllib.request.Request(f"{url}/api/v1/jobs/{job['job_id']}/result", headers={"X-API-Key": ADA})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_it_writes_a_report(served):
    job = submit(served, input={"lines": 3})
    assert ended(served, job)["current_status"] == "success"
    assert report(served, job) == "line 1\nline 2\nline 3\nend\n"


def test_it_stops_where_its_budget_does(served):
    job = submit(served, input={"lines": 5}, lease={"cost.budget": ["USD:0.50"]})
    assert ended(served, job)["current_status"] == "success"
    assert report(served, job) == "line 1\nline 2\nend\n"


def test_it_writes_nothing_without_authority(served):
    job = submit(served, input={"lines": 5}, lease={"tool.call": ["read"]})
    assert ended(served, job)["current_status"] == "success"
    assert report(served, job) == "end\n"


def test_it_stops_when_it_is_told_to(served):
    job = submit(served, input={"lines": 100, "pause": 0.1})
    eventually(lambda: rest(served, ADA, "GET", f"/jobs/{job['job_id']}")["current_status"] == "running", "a start")
    rest(served, ADA, "POST", f"/jobs/{job['job_id']}/cancel", {"session_id": job["session_id"]})
    assert ended(served, job)["current_status"] == "cancelled"
