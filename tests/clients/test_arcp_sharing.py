# Access to jobs of other principals, and jobs that outlive their client's connection: through ARCP's own Python SDK,
# unmodified.

import asyncio
import contextlib

import pytest
from arcp import (
    CancelledError,
    DuplicateKeyError,
    JobNotFoundError,
    ListJobsFilter,
    PermissionDeniedError,
    ResumeWindowExpiredError,
    SessionResume,
)
from arcp_kit import BOB, events, in_seconds, looped, rest, session, worker
from conftest import SERVICE, serving

# The id of a job that does not exist.
JOB = "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"


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
        # Starting after a number of the submitting session.
        tail = await late.subscribe(job.job_id, history=True, from_event_seq=2)
        assert await events(tail.handle) == told[2:]


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
            await anext(job.events())
            subscription = await bob.subscribe(job.job_id, history=True)
            assert subscription.replayed
            await bob.cancel_job(job.job_id)
            with pytest.raises(PermissionDeniedError):
                await subscription.handle.done
            # The SDK has dropped its handle because of the refusal; the subscription is still active.
            await bob.unsubscribe(job.job_id)
            again = await bob.subscribe(job.job_id, history=True)
            assert (await job.done).result == (await again.handle.done).result == 40
            told = [event["body"]["message"] for event in await events(again.handle)]
            # Events of the first subscription that were in flight may arrive before.
            assert told[-40:] == [str(n) for n in range(40)]

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
    # No worker runs this agent.
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
        # The terminal event of a finished job is sent again.
        assert (await elsewhere.done).result["echoed"] == {"a": 1, "b": 2}
        with pytest.raises(DuplicateKeyError):
            await other.submit(**asked | {"input": 3})
        assert (await bob.submit(**asked)).job_id != jobs[0].job_id


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
            # The SDK drops its handles with the connection, so it subscribes to the job again, under new numbers.
            subscription = await back.subscribe(job.job_id, history=True)
            assert (await subscription.handle.done).result == 20
            heard = [event["body"]["message"] for event in await events(subscription.handle)]
            # Events that were in flight before the history are sent again as part of it.
            assert heard[-20:] == [str(n) for n in range(20)]
            numbers = back.wire.numbers()
            assert numbers == list(range(seen + 1, seen + 1 + len(numbers)))
            # The old token was valid once only.
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
        # After the answer to another request, all events in flight have arrived.
        await other.list_jobs()
        before = len(other.wire.frames)
        await job.done
        assert [frame["type"] for frame in other.wire.frames[before:] if frame["type"].startswith("job.")] == []
