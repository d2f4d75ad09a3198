# The behaviour that the examples of ARCP's Python SDK (1.1.3) and TypeScript SDK (2.0.0) need from a server
# (ARCP-W-10.16). Each example is a client beside a runtime with its agents; here the clients talk to this server, and a
# worker runs the agents. The comments name the examples.

import asyncio
import hashlib
import hmac
import json
import time
import urllib.request

import pytest
from arcp_kit import ADA, events, in_seconds, looped, session, until, worker
from arcp_typescript import Refusal, typescript
from conftest import SERVICE, serving

TRACE = "0af7651916cd43dd8448eb211c80319c"


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


# express, fastify, host_asgi, host_aiohttp
def test_health_is_answered_beside_the_socket(served):
    with urllib.request.urlopen(f"{served}/health", timeout=10) as answer:
        assert json.load(answer)["ok"] is True


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


# delegate (Python): the agent opens a session of its own, and tells of the child by an event
@looped
async def test_an_agent_delegates_by_a_session_of_its_own(served):
    async with session(served, features=()) as client, session(served, features=()) as agents:
        parent = await client.submit(agent="sleeper", trace_id=TRACE)
        child = await agents.submit(agent="echo", input=1, trace_id=TRACE, parent_job_id=parent.job_id)
        assert (await child.done).result == {"echoed": 1, "by": "echo@2.0.0"}
        accepted = [frame for frame in agents.wire.frames if frame["type"] == "job.accepted"]
        assert [frame["trace_id"] for frame in accepted] == [TRACE]
        await client.cancel_job(parent.job_id)
        telling = [said("delegate", child_job_id=child.job_id, agent="echo")]
        job = await client.submit(agent="chatty", input={"events": telling})
        await job.done
        # It is passed on, and asks for nothing.
        assert [event["body"] for event in await events(job)] == [telling[0][1]]


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


# host_tracing, tracing: every envelope carries a trace context of OpenTelemetry
@looped
async def test_envelopes_with_a_trace_context_are_understood(served):
    context = {"x-vendor.opentelemetry.tracecontext": {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}}
    async with typescript(served, extensions=context) as client:
        job = await client.submit("echo", {"k": 1})
        assert (await job.done)["result"]["echoed"] == {"k": 1}


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
