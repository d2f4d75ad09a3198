# Jobs through ARCP's own Python SDK, unmodified (ARCP-W-10): its client, its transport, its errors. `entente worker`
# produces the events, so both ends are independent of the server. test_arcp_sharing.py covers access to jobs.

import asyncio

import pytest
from arcp import (
    AgentNotAvailableError,
    AgentVersionNotAvailableError,
    InternalError,
    InvalidRequestError,
    LeaseConstraints,
    LeaseExpiredError,
    ListJobsFilter,
    PermissionDeniedError,
    UnauthenticatedError,
)
from arcp import TimeoutError as JobTimeoutError
from arcp_kit import Recorder, events, in_seconds, looped, session, socket, until


@looped
async def test_a_session_is_welcomed(served):
    async with session(served) as client:
        welcome = client.welcome
        assert welcome.session_id.startswith("sess_") and welcome.resume_token.startswith("rt_")
        assert welcome.heartbeat_interval_sec > 0 and welcome.resume_window_sec > 0
        # `intersect_features` keeps the client's own order: the server supports all of its features.
        assert set(client.features) == set(client.negotiated_features)
        [echo] = [agent for agent in welcome.capabilities.agents if agent.name == "echo"]
        assert set(echo.versions) == {"1.0.0", "2.0.0"} and echo.default == "2.0.0"


@looped
async def test_a_bad_token_is_refused(served):
    for token in ("bad", ""):
        with pytest.raises(UnauthenticatedError):
            async with session(served, token):
                pass


@looped
async def test_a_job_is_done(served):
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with session(served) as client:
        job = await client.submit(
            agent="echo", input={"a": [1, 2.5, None, "é"]}, lease_request={"net.fetch": ["https://*"]}, trace_id=trace
        )
        assert job.job_id.startswith("job_") and job.agent_ref == "echo@2.0.0" and job.trace_id == trace
        assert job.lease == {"net.fetch": ["https://*"]}
        done = await job.done
        assert done.final_status == "success" and done.result_id is None
        assert done.result == {"echoed": {"a": [1, 2.5, None, "é"]}, "by": "echo@2.0.0"}
        [said] = await events(job)
        assert (said["kind"], said["body"]) == ("log", {"level": "info", "message": "echo started"})
        assert client.wire.numbers() == [1, 2]


@looped
async def test_many_jobs_at_once_share_one_row_of_numbers(served):
    async with session(served) as client:
        jobs = await asyncio.gather(*(client.submit(agent="counter", input={"to": 5}) for _ in range(6)))
        assert len({job.job_id for job in jobs}) == 6
        for job in jobs:
            assert (await job.done).result == 5
            assert [event["body"]["message"] for event in await events(job)] == list("01234")
        numbers = client.wire.numbers()
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) == 6 * 6


@looped
async def test_events_arrive_as_they_were_said(served):
    said = [
        ["log", {"level": "warn", "message": "m", "attributes": {"n": 1}}],
        ["thought", {"text": "t"}],
        ["tool_call", {"tool_call_id": "c1", "name": "search.web", "arguments": {"q": "x"}}],
        ["tool_result", {"tool_call_id": "c1", "output": [1]}],
        ["status", {"phase": "working", "message": "m"}],
        ["metric", {"name": "tokens", "value": 12.5, "unit": "1"}],
        ["artifact_ref", {"artifact_id": "a", "media_type": "text/plain", "uri": "file:///a", "size_bytes": 3}],
        ["progress", {"current": 1, "total": 2, "units": "files", "message": "m"}],
        ["x-vendor.acme.thing", {"any": {"thing": True}}],
    ]
    async with session(served) as client:
        job = await client.submit(agent="chatty", input={"events": said}, lease_request={"tool.call": ["search.*"]})
        assert (await job.done).result == "said"
        came = await events(job)
        assert [[event["kind"], event["body"]] for event in came] == said
        assert all(event["ts"].endswith("Z") for event in came)


@looped
async def test_a_session_is_sent_no_kind_that_it_did_not_ask_for(served):
    said = [["progress", {"current": 1}], ["log", {"level": "info", "message": "m"}]]
    async with session(served, features=("subscribe",)) as client:
        job = await client.submit(agent="chatty", input={"events": said})
        await job.done
        assert [event["kind"] for event in await events(job)] == ["log"]
        assert client.wire.numbers() == [1, 2]
        streamed = await client.submit(agent="streamer", input={"parts": ["a", "b"], "encoding": "utf8"})
        assert (await streamed.done).result == "ab"
    async with session(served, features=()) as client:
        with pytest.raises(InvalidRequestError):
            await client.list_jobs()


@looped
async def test_a_streamed_result_comes_whole_and_in_order(served):
    async with session(served) as client:
        parts = ["line one\n", "zwei – é\n", "", "end"]
        job = await client.submit(agent="streamer", input={"parts": parts, "encoding": "utf8"})
        done = await job.done
        assert done.result is None and done.result_id.startswith("res_")
        assert await job.collect_chunks() == "".join(parts).encode()
        assert done.result_size == len("".join(parts).encode())
        job = await client.submit(agent="streamer", input={"parts": ["AAEC", "/w=="], "encoding": "base64"})
        done = await job.done
        assert await job.collect_chunks() == b"\x00\x01\x02\xff" and done.result_size == 4
        # Closed by an empty chunk in the default encoding, as the SDK's own agents close every stream.
        closed = {"parts": ["AAEC", "/w=="], "encoding": "base64", "closes": True}
        job = await client.submit(agent="streamer", input=closed)
        done = await job.done
        assert await job.collect_chunks() == b"\x00\x01\x02\xff" and done.result_size == 4


@looped
async def test_a_result_that_is_too_large_for_a_frame_is_streamed(served):
    async with session(served) as client:
        job = await client.submit(agent="large", input={"letters": 900_000})
        done = await job.done
        assert await job.collect_chunks() == ("é" * 900_000).encode()
        assert done.result_size == 1_800_000


@looped
async def test_versions_are_resolved(served):
    async with session(served) as client:
        assert (await client.submit(agent="echo")).agent_ref == "echo@2.0.0"
        pinned = await client.submit(agent="echo@1.0.0")
        assert (await pinned.done).result["by"] == "echo@1.0.0"
        with pytest.raises(AgentVersionNotAvailableError):
            await client.submit(agent="echo@9.9.9")
        with pytest.raises(AgentNotAvailableError):
            await client.submit(agent="nobody")


@looped
async def test_a_lease_ends_the_job_with_it(served):
    async with session(served) as client:
        until = LeaseConstraints(expires_at=in_seconds(1.5))
        job = await client.submit(agent="sleeper", lease_constraints=until)
        with pytest.raises(LeaseExpiredError) as ended:
            await job.done
        assert not ended.value.retryable
        for past in ("2020-01-01T00:00:00Z", "2036-05-13T23:42:00+00:00"):
            with pytest.raises(InvalidRequestError):
                await client.submit(agent="echo", lease_constraints=LeaseConstraints(expires_at=past))


@looped
async def test_a_job_that_takes_too_long_is_timed_out(served):
    async with session(served) as client:
        job = await client.submit(agent="sleeper", max_runtime_sec=1)
        with pytest.raises(JobTimeoutError):
            await job.done
        page = await client.list_jobs(filter=ListJobsFilter(status=("timed_out",)))
        assert job.job_id in {listed.job_id for listed in page.jobs}


@looped
async def test_a_budget_is_kept_and_the_job_lives_on(served):
    async with session(served) as client:
        calls = [["search.web", 0.58], ["mail.send", 1], ["search.web", 0.3], ["search.news", 0.2], ["search.web", 0]]
        lease = {"tool.call": ["search.*"], "cost.budget": ["USD:1.00"]}
        job = await client.submit(agent="spender", input={"calls": calls}, lease_request=lease)
        assert job.budget.keys() == {"USD"}
        said = (await job.done).result
        assert said == ["allow", "PERMISSION_DENIED", "allow", "allow", "BUDGET_EXHAUSTED"]
        came = await events(job)
        left = [e["body"]["value"] for e in came if e["body"].get("name") == "cost.budget.remaining"]
        assert left == [0.42, 0.12, -0.08]
        denied = [e["body"] for e in came if e["kind"] == "tool_result"]
        assert [(body["tool_call_id"], body["error"]["code"]) for body in denied] == [
            ("c1", "PERMISSION_DENIED"),
            ("c4", "BUDGET_EXHAUSTED"),
        ]
        assert not any(body["error"]["retryable"] for body in denied)


@looped
async def test_an_agent_that_fails_says_why(served):
    async with session(served) as client:
        with pytest.raises(PermissionDeniedError, match="the door is locked") as failed:
            await (await client.submit(agent="failing")).done
        assert failed.value.details == {"door": 7}
        crashed = await client.submit(agent="crashing")
        with pytest.raises(InternalError, match="it broke") as failed:
            await crashed.done
        assert failed.value.retryable
        [said] = await events(crashed)
        assert said["body"] == {"level": "error", "message": "it broke"}


@looped
async def test_a_slow_reader_is_told_so(served):
    async with session(served) as client:

        def pressed(job):
            frames = [frame for frame in client.wire.frames if frame.get("job_id") == job.job_id]
            return [frame for frame in frames if frame["payload"].get("body", {}).get("phase") == "back_pressure"]

        job = await client.submit(agent="counter", input={"to": 120, "pause": 0.01})
        await until(lambda: pressed(job), "a word about the lag")
        await job.done
        assert len(pressed(job)) == 1
        await client.ack(client.latest_event_seq)
        again = await client.submit(agent="counter", input={"to": 10})
        await again.done
        assert not pressed(again)


@looped
async def test_malformed_frames_are_answered(served):
    wire = await Recorder.connect(socket(served) + "?x=1")
    await wire._conn.send("{")
    assert (await wire.recv())["payload"]["code"] == "INVALID_REQUEST"
    await wire.close()
    async with session(served) as client:
        await client.wire._conn.send("no json")
        await until(lambda: client.wire.frames[-1]["type"] == "session.error", "an answer to what is none")
        job = await client.submit(agent="echo")
        assert (await job.done).final_status == "success"
