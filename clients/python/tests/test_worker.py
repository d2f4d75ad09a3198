# Workers of our own Python client: asynchronous functions and others, jobs that fail, are cancelled, survive the server and the worker.

import asyncio
import contextlib
import threading
import time
import uuid
from datetime import datetime

import pytest
from entente import AsyncEntente, ClaimError, Entente, JobError, operations
from entente import worker as worker_module
from entente._jobs import JobState
from proxy import Proxy
from server import AGENTS


@pytest.fixture
def name():
    """A name of an agent that no other test uses."""
    return f"reporter-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def bob(url):
    with Entente(url, AGENTS["agent.bob"]) as client:
        yield client


@pytest.fixture
def work(url):
    """Runs workers in threads, and stops them at the end."""
    running = []

    def started(name, handler, address=None, **options):
        client = Entente(address or url, AGENTS["agent.ada"])
        worker = client.worker(f"{name}@1.0.0", handler, **options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        running.append((worker, thread, client))
        wait_for_agent(client, name)
        return worker, thread

    yield started
    for worker, thread, client in running:
        worker.stop()
        thread.join(40)
        assert not thread.is_alive()
        client.close()


def wait_until(done):
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for_agent(client, name):
    wait_until(lambda: any(one.name == name for one in client.call(operations.list_inventory()).agents))


def shouting(kind):
    """Returns a function for jobs, asynchronous or not, that reports and returns its input in capitals."""

    async def shout(job):
        await job.progress(1, 2)
        await job.log("half")
        return {"text": job.input["text"].upper(), "attempt": job.attempt}

    def shout_blocking(job):
        job.progress(1, 2)
        job.log("half")
        return {"text": job.input["text"].upper(), "attempt": job.attempt}

    return shout if kind == "async" else shout_blocking


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_job_is_run_and_its_result_returned(work, bob, name, kind):
    work(name, shouting(kind))
    seen = []
    made = bob.submit_job(name, {"text": "hello"})
    assert bob.wait_for_job(made.job_id, seen.append).status == "success"
    assert bob.call(operations.get_job_result(made.job_id)) == {"text": "HELLO", "attempt": 1}
    kinds = [one["payload"].get("kind") for one in seen]
    assert "progress" in kinds and "log" in kinds
    assert bob.run_job(name, {"text": "again"}) == {"text": "AGAIN", "attempt": 1}


def test_a_failure_says_whether_it_is_worth_another_attempt(work, bob, name):
    async def failing(job):
        if job.attempt == 1:
            await job.checkpoint({"done": 3})
            raise JobError("the upstream is away", "INTERNAL_ERROR", retryable=True)
        if job.input == "fatal":
            raise KeyError("rows")
        return job.progress_so_far

    work(name, failing)
    assert bob.run_job(name, "passing", retry={"max_attempts": 3}) == {"done": 3}
    with pytest.raises(JobError) as failed:
        bob.run_job(name, "fatal")
    assert failed.value.code == "INTERNAL_ERROR"


def test_jobs_run_at_once_up_to_the_limit(work, bob, name):
    running, most = [], []

    async def slow(job):
        running.append(job.id)
        most.append(len(running))
        # The first three wait for each other, so they run at once, however slow the machine is.
        while len(most) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        running.remove(job.id)

    work(name, slow, concurrency=3)
    made = [bob.submit_job(name, n).job_id for n in range(7)]
    assert {bob.wait_for_job(one).status for one in made} == {"success"}
    assert max(most) == 3


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_cancelled_job_stops(work, bob, name, kind):
    begun = threading.Event()

    async def endless(job):
        begun.set()
        await asyncio.sleep(60)

    def endless_blocking(job):
        begun.set()
        while True:
            job.check()
            time.sleep(0.02)

    work(name, endless if kind == "async" else endless_blocking)
    made = bob.submit_job(name)
    assert begun.wait(30)
    bob.call(operations.cancel_job(made.job_id, {"session_id": made.session_id, "grace_sec": 30}))
    started = time.monotonic()
    assert bob.wait_for_job(made.job_id).status == "cancelled"
    assert time.monotonic() - started < 25


def test_a_stopped_worker_hands_back_and_the_next_goes_on(work, bob, name):
    begun = threading.Event()

    async def half(job):
        await job.progress(1)
        await job.checkpoint({"rows": 500})
        begun.set()
        await asyncio.sleep(60)

    worker, thread = work(name, half, grace=0.1)
    made = bob.submit_job(name)
    assert begun.wait(30)
    worker.stop()
    thread.join(10)
    assert not thread.is_alive()

    async def rest(job):
        await job.progress(2)
        return {"from": job.progress_so_far}

    work(name, rest)
    seen = []
    bob.wait_for_job(made.job_id, seen.append)
    assert [one["payload"]["body"]["current"] for one in seen if one["payload"].get("kind") == "progress"] == [1, 2]
    assert bob.call(operations.get_job_result(made.job_id)) == {"from": {"rows": 500}}


UNWRITABLE = {
    "set": lambda: {1, 2},
    "time": datetime.now,
    "nan": lambda: {"rows": float("nan")},
    "half": lambda: "\ud800",
    "error": lambda: JobError("\ud800", details={"rows": {1}}, retryable=True),
}


# All in one: each job would run again.
def test_a_result_that_is_no_json_fails_its_job_for_good(work, bob, name):
    ran = []

    async def working(job):
        ran.append(job.input)
        found = UNWRITABLE[job.input]()
        if isinstance(found, JobError):
            raise found
        return found

    work(name, working, concurrency=len(UNWRITABLE))
    made = [bob.submit_job(name, word, retry={"max_attempts": 3}).job_id for word in UNWRITABLE]
    ends = [bob.wait_for_job(one) for one in made]
    assert {one.status for one in ends} == {"error"}
    for one in ends:
        assert "cannot be written as JSON" in one.terminal["message"], one.terminal
    assert sorted(ran) == sorted(UNWRITABLE)


def test_a_failure_of_half_characters_is_told(work, bob, name):
    def working(job):
        raise ValueError("there is no file \udcff")

    work(name, working)
    ended = bob.wait_for_job(bob.submit_job(name).job_id)
    assert "\\udcff" in ended.terminal["message"], ended.terminal


def test_a_lost_claim_keeps_back_no_other_job(work, bob, name):
    begun = []

    async def working(job):
        begun.append(job.input)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if job.input == "lost":
                # The worker does not hear of it before it hands it back.
                await type(job)(job._transport, JobState(job.claimed)).release("elsewhere")
            raise

    worker, thread = work(name, working, concurrency=2, grace=0.1)
    made = []
    for word in ("lost", "kept"):
        made.append(bob.submit_job(name, word).job_id)
        wait_until(lambda: word in begun)
    worker.stop()
    thread.join(30)
    assert [bob.call(operations.get_job(one)).status for one in made] == ["pending", "pending"]


def test_an_old_claim_that_ends_leaves_the_new_one_of_its_job(work, bob, name):
    begun, first_may_end = [], threading.Event()

    async def working(job):
        begun.append(job.id)
        if len(begun) == 1:
            # The worker does not hear of it, and claims the job again.
            await type(job)(job._transport, JobState(job.claimed)).release("elsewhere")
            while not first_may_end.is_set():
                await asyncio.sleep(0.01)
            return "first"
        first_may_end.set()
        await asyncio.sleep(60)

    work(name, working, concurrency=2)
    made = bob.submit_job(name)
    wait_until(lambda: len(begun) == 2)
    time.sleep(0.5)  # the first one ends
    # A job that the worker does not hold any more would not be told.
    bob.call(operations.cancel_job(made.job_id, {"session_id": made.session_id, "grace_sec": 30}))
    started = time.monotonic()
    assert bob.wait_for_job(made.job_id).status == "cancelled"
    assert time.monotonic() - started < 25


def test_a_worker_has_room_for_more_jobs_than_one_claim_takes(work, bob, name):
    async def working(job):
        return job.input

    work(name, working, concurrency=250)
    assert bob.run_job(name, 1) == 1


def test_lost_answers_report_each_event_once(work, bob, name, url):
    proxy = Proxy(url)
    steps = 5

    async def counting(job):
        for n in range(steps):
            proxy.lose_answers(f"POST /api/v1/jobs/{job.id}/events", 1)
            await job.progress(n + 1, steps)
        proxy.lose_answers(f"POST /api/v1/jobs/{job.id}/result", 1)
        return "done"

    try:
        # The same claim again has the same job.
        proxy.lose_answers("POST /api/v1/jobs/claim", 1)
        work(name, counting, proxy.url, grace=0.5)
        made = bob.submit_job(name)
        assert bob.wait_for_job(made.job_id).status == "success"
        events = bob.call(operations.job_events(made.job_id)).events
        found = [one.payload["body"]["current"] for one in events if one.payload.get("kind") == "progress"]
        assert found == [1, 2, 3, 4, 5]
        assert proxy.lost == steps + 2
        assert bob.call(operations.get_job(made.job_id)).attempt == 1
    finally:
        proxy.close()


def test_a_job_hears_signals_and_writes_under_its_claim(work, bob, name, url):
    talk = bob.channels.open("talk", bob.create_intent("Research").id)
    under = []

    async def waiting(job):
        while not job.signals:
            await asyncio.sleep(0.02)
        async with AsyncEntente(url, AGENTS["agent.ada"]) as ada:
            under.append(job.claim)
            await (await ada.under(claim=job.claim).channel(talk.id)).notify(None, {"heard": job.signals[0].payload})
        return job.signals[0].name

    work(name, waiting)
    made = bob.submit_job(name)
    bob.call(operations.signal_job(made.job_id, {"name": "input", "payload": {"answer": 42}}))
    assert bob.wait_for_job(made.job_id).status == "success"
    assert [one.payload for one in talk.messages()] == [{"heard": {"answer": 42}}]
    with Entente(url, AGENTS["agent.ada"]) as ada, pytest.raises(ClaimError):
        ada.under(claim=under[0]).channel(talk.id).notify(None, {"too": "late"})


def test_a_job_spends_within_its_budget(work, bob, name):
    async def spending(job):
        allowed = await job.authorize("tool.call", "write", reserve={"USD": 0.4})
        await job.settle(allowed.reservation_id, {"USD": 0.3})
        return job.claimed.budget

    work(name, spending)
    made = bob.submit_job(name, lease_request={"tool.call": ["write"], "cost.budget": ["USD:1.00"]})
    found = bob.wait_for_job(made.job_id)
    assert found.status == "success", found.terminal
    assert float(found.cost["USD"]) == 0.3


def test_a_quiet_worker_asks_rarely_until_it_is_to_run_again(work, url, bob, name, monkeypatch):
    asked = []
    call = worker_module.AsyncTransport.call

    async def counted(transport, request):
        asked.append(request.operation)
        return await call(transport, request)

    monkeypatch.setattr(worker_module.AsyncTransport, "call", counted)
    worker, _ = work(name, shouting("async"))
    ada = Entente(url, AGENTS["agent.ada"])
    ada.call(operations.direct_worker(worker._worker.worker_id, {"directive": "quiet"}))
    wait_until(lambda: worker._directive == "quiet")
    made = bob.submit_job(name, {"text": "hello"})
    time.sleep(1.5)
    asked.clear()
    time.sleep(2)
    assert len(asked) < 5, asked
    assert bob.call(operations.get_job(made.job_id)).status == "pending"
    ada.call(operations.direct_worker(worker._worker.worker_id, {"directive": "run"}))
    ada.close()
    assert bob.wait_for_job(made.job_id).status == "success"


def test_a_worker_that_stops_reports_what_is_done(url, bob, name):
    proxy, ran = Proxy(url), []

    async def quick(job):
        ran.append(job.attempt)
        proxy.down = True
        proxy.cut()
        return "done"

    with contextlib.ExitStack() as ending, Entente(proxy.url, AGENTS["agent.ada"]) as ada:
        ending.callback(proxy.close)
        worker = ada.worker(f"{name}@1.0.0", quick, grace=4)
        thread = threading.Thread(target=worker.run)
        thread.start()
        wait_for_agent(bob, name)
        made = bob.submit_job(name)
        wait_until(lambda: ran)
        worker.stop()
        # The server is back after the time in which running jobs may end.
        time.sleep(5.5)
        proxy.down = False
        thread.join(40)
        assert not thread.is_alive()
        assert bob.call(operations.get_job(made.job_id)).status == "success"
        assert ran == [1]


def test_a_cancellation_that_a_report_brought_interrupts(work, bob, name):
    begun = threading.Event()

    async def slow(job):
        begun.set()
        # As after a report whose answer said so, before the heartbeat did.
        job._state.cancelled = True
        await asyncio.sleep(60)

    work(name, slow)
    made = bob.submit_job(name)
    assert begun.wait(20)
    started = time.monotonic()
    bob.call(operations.cancel_job(made.job_id, {"session_id": made.session_id, "grace_sec": 30}))
    assert bob.wait_for_job(made.job_id).status == "cancelled"
    assert time.monotonic() - started < 20


def test_a_worker_survives_the_restart_of_its_server(server, name):
    proxy = Proxy(server.url)
    begun, go_on = threading.Event(), threading.Event()

    async def counting(job):
        for n in range(3):
            await job.progress(n + 1, 3)
            if n == 0:
                begun.set()
                await asyncio.to_thread(go_on.wait, 40)
        return job.attempt

    with contextlib.ExitStack() as ending, Entente(proxy.url, AGENTS["agent.ada"], patience=60) as ada:
        ending.callback(proxy.close)
        worker = ada.worker(f"{name}@1.0.0", counting)
        thread = threading.Thread(target=worker.run)
        thread.start()
        ending.callback(worker.stop)
        wait_for_agent(ada, name)
        talk = ada.channels.open("talk", ada.create_intent("Research").id)
        with talk.stream() as stream:
            talk.notify(None, {"n": 0})
            made = ada.submit_job(name)
            assert begun.wait(30)
            server.stop()
            go_on.set()
            proxy.aim(server.start().url)
            talk.notify(None, {"n": 1})
            assert [next(stream).data["payload"]["n"] for _ in range(2)] == [0, 1]
        assert ada.wait_for_job(made.job_id).status == "success"
        # It may have ended before anybody waited.
        events = ada.call(operations.job_events(made.job_id)).events
        assert [one.payload["body"]["current"] for one in events if one.payload.get("kind") == "progress"] == [1, 2, 3]
        assert ada.call(operations.get_job_result(made.job_id)) == 1
        worker.stop()
        thread.join(40)
        assert not thread.is_alive()
