# The examples of ARCP's SDKs against this server (ARCP-W-10.16). Each example is a client beside a runtime with its agents;
# here the clients talk to this server, and a worker runs the agents.
#
# The 22 of the Python SDK (1.1.3) run unmodified, from the sdist that scripts/setup.sh has downloaded. The 23 of the
# TypeScript SDK (2.0.0) are in no package registry: a client with that SDK's schemas sends what they send; the comments
# name them.

import asyncio
import hashlib
import hmac
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from arcp_kit import ADA, events, in_seconds, looped, rest, session, socket, until, worker
from arcp_typescript import Refusal, typescript
from conftest import PROGRAM, SERVICE, environment, serving

EXAMPLES = Path(__file__).parents[2] / ".venv" / "sdists" / "agentruntimecontrolprotocol-1.1.3" / "examples"
# The same list as in the sdist, so that a missing one fails: `test_the_list_of_examples_is_complete`.
NAMES = """ack_backpressure agent_versions cancel cost_budget custom_auth delegate heartbeat host_aiohttp host_asgi
host_tracing idempotent_retry lease_expires_at lease_violation list_jobs progress provisioned_credentials result_chunk
resume stdio submit_and_stream subscribe vendor_extensions""".split()
# Alone, before all others: `list_jobs` counts every running job that its session may see, and both give the agents less
# than a second to begin.
ALONE, SLOWEST = ("list_jobs", "subscribe"), ("heartbeat", "ack_backpressure", "delegate")
AT_ONCE = 5
EXAMPLE_LIMIT = 60
AGENTS_OF_EXAMPLES = """a b caller cautious chatty child echo hold long model-user parent patient report report-builder slow
vendor""".split()
VERSIONS = [f"{agent}@1.0.0" for agent in (*AGENTS_OF_EXAMPLES, "summarize")] + ["summarize@1.2.3"]
# What the examples' own runtimes are set to.
SETTINGS = {
    "ENTENTE_ARCP_TOKEN_SECRET": "demo-shared-secret",
    "ENTENTE_ARCP_HEARTBEAT_SECONDS": "5",
    "ENTENTE_ARCP_OPEN_POLICY": "subscribe",
    "ENTENTE_CREDENTIALS": "development",
}


def token(name: str) -> str:
    """The token of an example's client: each is a principal of its own."""
    return f"token-of-{name}"


def run(name: str, url: str, home: Path) -> subprocess.CompletedProcess:
    """Runs an example's client as it is. `stdio` starts the program beside it, which is the relay here."""
    folder = EXAMPLES / name
    if name == "stdio":
        folder = home / name
        folder.mkdir()
        shutil.copy(EXAMPLES / name / "client.py", folder)
        relay = [str(PROGRAM), "arcp-stdio", "--url", url]
        (folder / "server.py").write_text(f"import os\nos.execv({relay[0]!r}, {relay!r})\n")
    demo = {
        "ARCP_DEMO_URL": socket(url),
        # Two of them build another URL from it.
        "ARCP_DEMO_PORT": url.rpartition(":")[2],
        "ARCP_DEMO_TOKEN": token(name),
    }
    command = [sys.executable, folder / "client.py"]
    return subprocess.run(command, env=environment() | demo, capture_output=True, text=True, timeout=EXAMPLE_LIMIT)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Runs the examples of the Python SDK side by side; yields the server's URL, and each one's future by its name."""
    seeds = [f"agent:agent.{name.replace('_', '-')}={token(name)}" for name in NAMES]
    seeds.append("agent:agent.observer=demo-token-b")
    home = tmp_path_factory.mktemp("examples")
    with serving(tuple(seeds), **SETTINGS) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXAMPLES_URL", socket(url))
        patch.setenv("DELEGATE_TOKEN", token("delegate"))
        with worker(url, SERVICE, 16, VERSIONS, program="example_agents.py"), ThreadPoolExecutor(AT_ONCE) as pool:
            runs = {}
            for name in ALONE:
                runs[name] = pool.submit(run, name, url, home)
                wait([runs[name]])
            for name in sorted(set(NAMES) - set(ALONE), key=lambda name: (name not in SLOWEST, name)):
                runs[name] = pool.submit(run, name, url, home)
            yield url, runs


def test_the_list_of_examples_is_complete():
    assert EXAMPLES.is_dir(), "download them first: make setup"
    assert sorted(client.parent.name for client in EXAMPLES.glob("*/client.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_of_the_python_sdk_succeeds(examples, name):
    url, runs = examples
    done = runs[name].result()
    assert done.returncode == 0, done.stdout + done.stderr
    if name == "delegate":
        # The event names a job of its own, below its parent.
        [parent] = rest(url, token(name), "GET", "/jobs?agent=parent")["jobs"]
        [child] = rest(url, token(name), "GET", "/jobs?agent=child")["jobs"]
        assert child["parent_job_id"] == parent["job_id"] and child["status"] == "success"
        assert f"'child_job_id': '{child['job_id']}'" in done.stdout


def signed(principal: str, secret: str, seconds: int = 60) -> str:
    said = f"{principal}.{int(time.time()) + seconds}"
    return f"{said}.{hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()}"


def said(kind: str, **body) -> list:
    return [kind, body]


# custom-auth (TypeScript's default secret has eleven characters), heartbeat, provisioned-credentials.
def test_a_server_for_development_takes_the_settings_of_the_examples():
    secret = "demo-secret"
    settings = {"ENTENTE_ARCP_TOKEN_SECRET": secret, "ENTENTE_ARCP_HEARTBEAT_SECONDS": "5"}

    @looped
    async def look(url):
        async with typescript(url, signed("alice", secret)) as client:
            assert client.welcome["heartbeat_interval_sec"] == 5
            job = await client.submit("echo", {"hello": "world"})
            assert (await job.done)["result"]["echoed"] == {"hello": "world"}
        for bad in ("alice.0.deadbeef", "not.a.valid.token", signed("alice", "demo-secret-2"), signed("alice", secret, -9)):
            with pytest.raises(Refusal) as refused:
                async with typescript(url, bad):
                    pass
            assert refused.value.code == "UNAUTHENTICATED"
        async with typescript(url) as client:
            lease = {"model.use": ["gpt-4o-mini"], "cost.budget": ["USD:0.10"]}
            job = await client.submit("echo", {}, lease_request=lease)
            [credential] = job.acceptance.result()["credentials"]
            assert job.acceptance.result()["budget"] == {"USD": 0.1} and credential["value"]
            await job.done

    with serving(ENTENTE_CREDENTIALS="development", **settings) as url, worker(url, SERVICE):
        look(url)


# delegate, tracing (TypeScript): the agent emits a `delegate` event (ARCP §10)
@looped
async def test_an_agent_delegates_by_an_event(served):
    async with typescript(served) as client:
        lease = {"fs.read": ["/w/**"], "fs.write": ["/w/src/**"], "agent.delegate": ["echo"]}
        order = {"delegate_id": "del_tests", "agent": "echo", "input": {"suite": "all"}}
        order["lease_request"] = {"fs.read": ["/w/**"]}
        script = [said("status", phase="delegating"), said("delegate", **order), said("status", phase="compiled")]
        parent = await client.submit("chatty", {"events": script}, lease_request=lease)
        assert (await parent.done)["result"] == "said"
        assert [event["kind"] for event in parent.events] == ["status", "delegate", "status"]
        [told] = parent.bodies("delegate")
        accepted = await client.until("job.accepted", parent_job_id=parent.job_id)
        child = accepted["payload"]
        assert (child["job_id"], child["delegate_id"]) == (told["child_job_id"], "del_tests")
        assert child["trace_id"] == parent.acceptance.result()["trace_id"]
        assert child["lease"] == {"fs.read": ["/w/**"]}
        # The child outlives a parent that succeeded, in the same session and its row of numbers.
        result = await client.until("job.result", result={"echoed": {"suite": "all"}, "by": "echo@2.0.0"})
        assert result["job_id"] == child["job_id"]


@looped
async def test_a_delegation_beyond_the_lease_is_refused_to_the_agent(served):
    async with typescript(served) as client:
        lease = {"fs.read": ["/w/*"], "agent.delegate": ["echo"]}
        wide = {"delegate_id": "wide", "agent": "echo", "lease_request": {"fs.read": ["/**"]}}
        other = {"delegate_id": "other", "agent": "sleeper"}
        script = [said("delegate", **wide), said("delegate", **other), said("log", level="info", message="on")]
        job = await client.submit("chatty", {"events": script}, lease_request=lease)
        await job.done
        refused = {body["call_id"]: body["error"]["code"] for body in job.bodies("tool_result")}
        assert refused == {"wide": "LEASE_SUBSET_VIOLATION", "other": "PERMISSION_DENIED"}
        assert job.bodies("log") == [{"level": "info", "message": "on"}]
        assert [frame for frame in client.frames if frame["payload"].get("parent_job_id") == job.job_id] == []


# An event that tells of a child is passed on, and asks for nothing.
@looped
async def test_an_event_that_tells_of_a_child_is_passed_on(served):
    async with session(served, features=()) as client:
        told = {"child_job_id": "job_x", "agent": "echo"}
        job = await client.submit(agent="chatty", input={"events": [said("delegate", **told)]})
        await job.done
        assert [event["body"] for event in await events(job)] == [told]


# lease-violation, lease-expires-at: the tool is the operation itself
@looped
async def test_a_tool_that_is_an_operation_is_judged_as_it(served):
    async with typescript(served) as client:
        lease = {"fs.read": ["/workspace/src/**"], "net.fetch": ["https://example.org/**"]}
        calls = [
            ("c1", {"tool": "fs.read", "args": {"path": "/workspace/src/auth/handler.ts"}}, None),
            ("c2", {"tool": "fs.read", "args": {"path": "/etc/passwd"}}, "PERMISSION_DENIED"),
            ("c3", {"tool": "fs.read", "args": {"path": "/workspace/src/../../etc/passwd"}}, "PERMISSION_DENIED"),
            ("c4", {"name": "net.fetch", "arguments": {"url": "https://example.org/a"}}, None),
            ("c5", {"tool": "net.fetch", "args": {"url": "https://example.com/a"}}, "PERMISSION_DENIED"),
            ("c6", {"tool": "fs.read", "args": "/workspace/src/a"}, "PERMISSION_DENIED"),
            # The lease names neither `fs.write` nor any tool.
            ("c7", {"tool": "fs.write", "args": {"path": "/workspace/src/a"}}, "PERMISSION_DENIED"),
        ]
        script = [said("tool_call", call_id=name, **body) for name, body, _ in calls]
        job = await client.submit("chatty", {"events": script}, lease_request=lease)
        assert (await job.done)["final_status"] == "success", "a refusal does not end the job"
        refused = {body["call_id"]: body["error"]["code"] for body in job.bodies("tool_result")}
        assert refused == {name: code for name, _, code in calls if code}


# resume: the client resumes after the job's end, from a number that it has passed
@looped
async def test_a_session_is_resumed_after_its_job_has_ended(served):
    async with typescript(served, leaves=False) as client:
        job = await client.submit("counter", {"to": 8})
        await job.done
        resume = {"session_id": client.session_id, "resume_token": client.welcome["resume_token"], "last_event_seq": 2}
    async with typescript(served, resume=resume) as again:
        assert again.session_id == resume["session_id"]
        assert again.welcome["resume_token"] != resume["resume_token"]
        await again.until("job.result")
        assert [frame["event_seq"] for frame in again.frames if "event_seq" in frame] == list(range(3, 10))


# idempotent-retry: the second submission comes after the end of the first
@looped
async def test_a_key_is_one_job_and_refuses_another(served):
    key = f"weekly-report-{time.time()}"
    async with typescript(served) as client:
        first = await client.submit("echo", {"week": 1}, idempotency_key=key)
        await first.done
        again = await client.submit("echo", {"week": 1}, idempotency_key=key)
        assert again.job_id == first.job_id
        assert (await again.done)["result"] == (await first.done)["result"]
        with pytest.raises(Refusal) as refused:
            await client.submit("counter", {"to": 1}, idempotency_key=key)
        assert refused.value.code == "DUPLICATE_KEY"


# list-jobs: three submissions at once, and two pages of running jobs soon after
@looped
async def test_jobs_that_were_submitted_at_once_run_and_are_listed(served):
    async with typescript(served) as client:
        wanted = {"status": ["running"], "agent": "sleeper", "created_after": in_seconds(0)}
        jobs = await asyncio.gather(*(client.submit("sleeper", {"label": label}) for label in ("a", "b", "c")))
        await asyncio.gather(*(running(job) for job in jobs))
        page = await client.list_jobs(filter=wanted, limit=2)
        rest = await client.list_jobs(filter=wanted, limit=2, cursor=page["next_cursor"])
        assert (len(page["jobs"]), len(rest["jobs"]), rest["next_cursor"]) == (2, 1, None)
        assert {one["job_id"] for one in page["jobs"] + rest["jobs"]} == {job.job_id for job in jobs}
        for job in jobs:
            await client.cancel(job.job_id)
        for job in jobs:
            with pytest.raises(Refusal) as ended:
                await job.done
            assert ended.value.code == "CANCELLED"


async def running(job):
    await until(lambda: job.events, "an event of a job")


# subscribe: an observer of the same principal, whose cancellation is refused
@looped
async def test_an_observer_sees_all_and_cancels_nothing(served):
    async with typescript(served) as owner, typescript(served) as observer:
        job = await owner.submit("counter", {"to": 10, "pause": 0.05})
        await running(job)
        listed = await observer.list_jobs(filter={"status": ["running"], "agent": "counter"})
        assert job.job_id in {one["job_id"] for one in listed["jobs"]}
        answer = await observer.subscribe(job.job_id, history=True)
        assert answer["replayed"] is True
        await observer.cancel(job.job_id)
        refusal = await observer.until("session.error", job_id=job.job_id)
        assert refusal["payload"]["code"] == "PERMISSION_DENIED"
        assert (await job.done)["result"] == 10
        await observer.until("job.result", result=10)
        seen = [frame["payload"]["body"]["message"] for frame in observer.frames if frame["type"] == "job.event"]
        assert seen == [str(number) for number in range(10)]


# cost-budget: numbers where the client formats numbers, and an end that the agent chooses
@looped
async def test_a_spent_budget_is_told_in_numbers(served):
    async with typescript(served) as client:
        lease = {"tool.call": ["search.*"], "cost.budget": ["USD:1.00"]}
        calls = [["search.web", 0.3]] * 5
        job = await client.submit("spender", {"calls": calls}, lease_request=lease)
        assert (await job.done)["result"] == ["allow"] * 4 + ["BUDGET_EXHAUSTED"]
        assert job.acceptance.result()["budget"] == {"USD": 1}
        left = [body["value"] for body in job.bodies("metric") if body["name"] == "cost.budget.remaining"]
        assert left == [0.7, 0.4, 0.1, -0.2]


# ack-backpressure: an agent that says more than its client acknowledges
@looped
async def test_a_client_that_acknowledges_nothing_is_told_so(served):
    async with typescript(served) as client:
        job = await client.submit("counter", {"to": 120, "pause": 0.01})
        await job.done
        assert len(job.bodies("log")) == 120
        assert "back_pressure" in {body["phase"] for body in job.bodies("status")}


# vendor-extensions, submit-and-stream, progress, result-chunk: every kind, as both SDKs' agents write it
@looped
async def test_every_kind_of_event_arrives_at_both_clients(served):
    script = [
        said("status", phase="starting"), said("thought", text="first fetch"), said("progress", current=1, total=2),
        said("artifact_ref", uri="memory://r", content_type="application/json"),
        said("artifact_ref", artifact_id="a1", media_type="text/plain", size_bytes=7, summary="report"),
        said("metric", name="tokens.in", value=12, unit="tokens"),
        said("x-vendor.acme.progress", percent=50, eta_seconds=1),
    ]  # fmt: skip
    lease = {"net.fetch": ["s3://example/**"], "x-vendor.acme.metrics": ["acme:render/*"]}
    async with typescript(served) as client, session(served, ADA) as python:
        one = await client.submit("chatty", {"events": script}, lease_request=lease)
        await one.done
        assert [[event["kind"], event["body"]] for event in one.events] == script
        assert one.acceptance.result()["lease"] == lease
        two = await python.submit(agent="chatty", input={"events": script}, lease_request=lease)
        await two.done
        assert [[event["kind"], event["body"]] for event in await events(two)] == script
        streamed = await client.submit("streamer", {"parts": ["a", "é", "c"], "encoding": "utf8"})
        assert (await streamed.done)["result_size"] == 4
        assert "".join(body["data"] for body in streamed.bodies("result_chunk")) == "aéc"


# agent-versions, cancel
@looped
async def test_a_missing_version_fails_only_its_own_submission(served):
    async with typescript(served) as client:
        bare, pinned = await client.submit("echo", 1), await client.submit("echo@1.0.0", 2)
        assert [(await job.done)["result"]["by"] for job in (bare, pinned)] == ["echo@2.0.0", "echo@1.0.0"]
        with pytest.raises(Refusal) as refused:
            await client.submit("echo@3.0.0", 3)
        assert refused.value.code == "AGENT_VERSION_NOT_AVAILABLE"
        after = await client.submit("echo", 4)
        assert (await after.done)["final_status"] == "success"
