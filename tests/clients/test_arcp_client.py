# Jobs through ARCP's own Python SDK, unmodified (contract 10): its client, its transport, its errors. What it is sent was
# made by `entente worker`, so that both ends are somebody else's.

import asyncio
import contextlib
from datetime import datetime, timedelta, timezone

import pytest
from arcp import (
    AgentNotAvailableError,
    AgentVersionNotAvailableError,
    CancelledError,
    DuplicateKeyError,
    InvalidRequestError,
    JobNotFoundError,
    LeaseConstraints,
    LeaseExpiredError,
    ListJobsFilter,
    PermissionDeniedError,
    ResumeWindowExpiredError,
    SessionResume,
    UnauthenticatedError,
)
from arcp import TimeoutError as JobTimeoutError
from arcp_kit import ADA, BOB, Recorder, events, looped, rest, session, socket, worker
from conftest import SERVICE, serving

# The job of nobody.
JOB = "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


@pytest.fixture(scope="module")
def served(url):
    """A server with a worker, which everybody may submit to."""
    with worker(url, SERVICE):
        yield url


def in_seconds(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@looped
async def test_a_session_is_welcomed(served):
    async with session(served) as client:
        welcome = client.welcome
        assert welcome.session_id.startswith("sess_") and welcome.resume_token.startswith("rt_")
        assert welcome.heartbeat_interval_sec > 0 and welcome.resume_window_sec > 0
        # `intersect_features` keeps the client's own order: everything that it has, the server has.
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


@looped
async def test_a_result_that_is_too_large_for_a_frame_is_streamed(served):
    async with session(served) as client:
        job = await client.submit(agent="large", input={"letters": 900_000})
        done = await job.done
        assert await job.collect_chunks() == ("é" * 900_000).encode()
        assert done.result_size == 1_800_000


@looped
async def test_jobs_are_listed_in_pages(served):
    since = in_seconds(0)
    async with session(served) as client:
        mine = [await client.submit(agent=f"echo@{n % 2 + 1}.0.0") for n in range(5)]
        for job in mine:
            await job.done
        ids, cursor = [], None
        while True:
            page = await client.list_jobs(filter=ListJobsFilter(created_after=since), limit=2, cursor=cursor)
            ids += [job.job_id for job in page.jobs]
            assert len(page.jobs) <= 2
            if not (cursor := page.next_cursor):
                break
        assert sorted(ids) == sorted(job.job_id for job in mine) and len(ids) == len(set(ids)) == 5

        async def listed(**filters):
            page = await client.list_jobs(filter=ListJobsFilter(created_after=since, **filters))
            return {job.job_id for job in page.jobs}

        assert await listed(agent="echo") == set(ids)
        assert await listed(agent="echo@1.0.0") == {job.job_id for job in mine[0::2]}
        assert await listed(agent="sleeper") == set()
        assert await listed(status=("success",)) == set(ids)
        assert await listed(status=("running", "pending")) == set()
    # Another session of the same principal sees them; another principal does not.
    async with session(served) as again, session(served, BOB) as bob:
        assert {job.job_id for job in (await again.list_jobs(filter=ListJobsFilter(created_after=since))).jobs} == set(ids)
        assert not {job.job_id for job in (await bob.list_jobs(limit=1000)).jobs} & set(ids)


@looped
async def test_a_job_that_is_over_is_told_again_to_who_subscribes(served):
    async with session(served) as client:
        job = await client.submit(agent="counter", input={"to": 3})
        await job.done
        told = await events(job)
    async with session(served) as late:
        subscription = await late.subscribe(job.job_id, history=True)
        assert subscription.replayed
        assert (await subscription.handle.done).result == 3
        assert await events(subscription.handle) == told
        numbers = late.wire.numbers()
        assert numbers == list(range(1, len(numbers) + 1))
        # From a number of the submitting session's on.
        rest = await late.subscribe(job.job_id, history=True, from_event_seq=2)
        assert await events(rest.handle) == told[2:]


@looped
async def test_a_job_that_runs_is_followed_from_elsewhere(served):
    async with session(served) as client, session(served) as other:
        job = await client.submit(agent="counter", input={"to": 20, "pause": 0.05})
        subscription = await other.subscribe(job.job_id, history=True)
        own = await other.submit(agent="echo")
        assert (await subscription.handle.done).result == 20
        assert [event["body"]["message"] for event in await events(subscription.handle)] == [str(n) for n in range(20)]
        await own.done
        numbers = other.wire.numbers()
        assert numbers == list(range(1, len(numbers) + 1))


@looped
async def test_another_principal_sees_nothing(served):
    async with session(served) as client, session(served, BOB) as bob:
        job = await client.submit(agent="sleeper")
        for unknown in (job.job_id, JOB):
            with pytest.raises(JobNotFoundError):
                await bob.subscribe(unknown, history=True)
        await client.cancel_job(job.job_id)
        with pytest.raises(CancelledError):
            await job.done


def test_an_open_policy_lets_others_see_but_not_cancel():
    settings = {"ENTENTE_ARCP_OPEN_POLICY": "subscribe", "ENTENTE_ARCP_HEARTBEAT_SECONDS": "5"}

    @looped
    async def look(url):
        async with session(url) as client, session(url, BOB) as bob:
            assert client.welcome.heartbeat_interval_sec == 5
            job = await client.submit(agent="counter", input={"to": 40, "pause": 0.05})
            assert job.job_id in {listed.job_id for listed in (await bob.list_jobs()).jobs}
            subscription = await bob.subscribe(job.job_id, history=True)
            assert subscription.replayed
            await bob.cancel_job(job.job_id)
            with pytest.raises(PermissionDeniedError):
                await subscription.handle.done
            again = await bob.subscribe(job.job_id, history=True)
            assert (await job.done).result == (await again.handle.done).result == 40
            assert await events(again.handle) == await events(job)

    with serving(**settings) as url, worker(url, SERVICE):
        look(url)


@looped
async def test_a_job_that_runs_is_cancelled(served):
    async with session(served) as client:
        job = await client.submit(agent="sleeper")
        async for event in job.events():
            assert event["body"] == {"phase": "asleep"}
            await client.cancel_job(job.job_id, reason="enough")
        with pytest.raises(CancelledError):
            await job.done
        kinds = [frame["type"] for frame in client.wire.frames if frame.get("job_id") == job.job_id]
        assert kinds.index("job.cancelled") < kinds.index("job.error") == len(kinds) - 1


@looped
async def test_a_job_that_waits_is_cancelled(served):
    # Nobody works on this one.
    rest(served, SERVICE, "PUT", "/arcp/agents/idle/versions/1.0.0", {})
    async with session(served) as client:
        job = await client.submit(agent="idle")
        await client.cancel_job(job.job_id)
        with pytest.raises(CancelledError):
            await job.done
        page = await client.list_jobs(filter=ListJobsFilter(agent="idle", status=("cancelled",)))
        assert job.job_id in {listed.job_id for listed in page.jobs}


@looped
async def test_only_the_submitting_session_cancels(served):
    async with session(served) as client, session(served) as other:
        job = await client.submit(agent="sleeper")
        subscription = await other.subscribe(job.job_id)
        await other.cancel_job(job.job_id)
        with pytest.raises(PermissionDeniedError):
            await subscription.handle.done
        await client.cancel_job(job.job_id)
        with pytest.raises(CancelledError):
            await job.done


@looped
async def test_the_same_key_is_the_same_job(served):
    asked = {"agent": "echo", "input": {"a": 1, "b": 2}, "idempotency_key": f"once-{in_seconds(0)}"}
    async with session(served) as client, session(served) as other, session(served, BOB) as bob:
        jobs = await asyncio.gather(*(client.submit(**asked) for _ in range(5)))
        elsewhere = await other.submit(**asked | {"input": {"b": 2, "a": 1}})
        assert {job.job_id for job in [*jobs, elsewhere]} == {jobs[0].job_id}
        assert elsewhere.accepted.accepted_at == jobs[0].accepted.accepted_at
        # The terminal of a job that is over is told again.
        assert (await elsewhere.done).result["echoed"] == {"a": 1, "b": 2}
        with pytest.raises(DuplicateKeyError):
            await other.submit(**asked | {"input": 3})
        assert (await bob.submit(**asked)).job_id != jobs[0].job_id


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
async def test_a_session_goes_on_after_its_socket_was_cut(served):
    async with session(served) as client:
        first = client.welcome
        job = await client.submit(agent="counter", input={"to": 20, "pause": 0.05})
        async for event in job.events():
            if event["body"]["message"] == "4":
                break
        seen = client.latest_event_seq
        await client.wire.drop()
        resume = SessionResume(session_id=first.session_id, resume_token=first.resume_token, last_event_seq=seen)
        async with session(served, resume=resume) as back:
            assert back.session_id == first.session_id and back.welcome.resume_token != first.resume_token
            # The SDK forgets its handles with the connection, so it asks for the job again, under new numbers.
            subscription = await back.subscribe(job.job_id, history=True)
            assert (await subscription.handle.done).result == 20
            heard = [event["body"]["message"] for event in await events(subscription.handle)]
            assert list(dict.fromkeys(heard)) == [str(n) for n in range(20)]
            numbers = back.wire.numbers()
            assert numbers == list(range(seen + 1, seen + 1 + len(numbers)))
            # The old token was good once.
            with pytest.raises(ResumeWindowExpiredError):
                async with session(served, resume=resume):
                    pass


@looped
async def test_a_half_open_connection_is_taken_over(served):
    async with session(served) as client:
        resume = SessionResume(
            session_id=client.session_id, resume_token=client.welcome.resume_token, last_event_seq=0
        )
        async with session(served, resume=resume) as back:
            assert (await (await back.submit(agent="echo")).done).final_status == "success"


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
        with pytest.raises(Exception, match="it broke") as failed:
            await crashed.done
        assert failed.value.code == "INTERNAL_ERROR" and failed.value.retryable
        [said] = await events(crashed)
        assert said["body"] == {"level": "error", "message": "it broke"}


@looped
async def test_a_slow_reader_is_told_so(served):
    async with session(served) as client:
        job = await client.submit(agent="counter", input={"to": 120})
        await job.done
        pressed = [e for e in await events(job) if e["body"].get("phase") == "back_pressure"]
        assert len(pressed) == 1
        await client.ack(client.latest_event_seq)
        again = await client.submit(agent="counter", input={"to": 10})
        await again.done
        assert not [e for e in await events(again) if e["body"].get("phase") == "back_pressure"]


@looped
async def test_a_client_that_leaves_comes_back_to_its_job(served):
    async with session(served) as client:
        job = await client.submit(agent="counter", input={"to": 10, "pause": 0.05})
    async with session(served) as later:
        subscription = await later.subscribe(job.job_id, history=True)
        assert (await subscription.handle.done).result == 10
        assert len(await events(subscription.handle)) == 10


@looped
async def test_unsubscribing_ends_it(served):
    async with session(served) as client, session(served) as other:
        job = await client.submit(agent="counter", input={"to": 20, "pause": 0.05})
        subscription = await other.subscribe(job.job_id)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(anext(subscription.handle.events()), 2)
        await other.unsubscribe(job.job_id)
        # An answer to something else: what was under way before has come.
        await other.list_jobs()
        before = len(other.wire.frames)
        await job.done
        assert [frame["type"] for frame in other.wire.frames[before:] if frame["type"].startswith("job.")] == []


@looped
async def test_malformed_frames_are_answered(served):
    wire = await Recorder.connect(socket(served) + "?x=1")
    await wire._conn.send("{")
    assert (await wire.recv())["payload"]["code"] == "INVALID_REQUEST"
    await wire.close()
    async with session(served, ADA) as client:
        await client.wire._conn.send("no json")
        job = await client.submit(agent="echo")
        assert (await job.done).final_status == "success"
