# The runtime of ARCP's SDK over a server: what its agents see, and what outlives programs, servers and connections. The clients are the
# SDK's own. Most share a process with the runtime, over its pairs of transports in memory; those of killed programs are at the server.

import asyncio
import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import arcp
import pytest
from arcp import ClientInfo, RuntimeInfo, SessionResume, WebSocketTransport, pair_memory_transports
from arcp.client import ARCPClient
from arcp.runtime import JobContext as SdkContext
from entente import Entente, EntenteError, operations
from entente._async.transport import Transport
from entente.arcp import ARCPRuntime, Identity, JobContext, StaticBearerVerifier, UpstreamBudgetExhausted
from entente.arcp.runtime import GRACE
from entente.worker import log
from proxy import Proxy
from server import AGENTS, ARCP_SETTINGS
from websockets.asyncio.server import serve

PATIENCE = 60
PROGRAM = Path(__file__).parent / "counting_program.py"
SECRET = ARCP_SETTINGS["ENTENTE_ARCP_TOKEN_SECRET"]


def looped(test):
    """Runs an asynchronous test with a time limit, because a client that waits for a missing event waits for ever."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), PATIENCE))

    return run


@pytest.fixture
def name():
    """A name of an agent that no other test uses."""
    return f"agent-{uuid.uuid4().hex[:8]}"


@contextlib.asynccontextmanager
async def serving(url, agents, **options):
    """Runs a runtime with agents by their names, which knows its clients by their tokens."""
    options = {"bearer": StaticBearerVerifier({"ada": "agent.ada", "ann": "ann@example.org"}), "token_secret": SECRET} | options
    runtime = ARCPRuntime(runtime=RuntimeInfo(name="tests", version="1"), base_url=url, api_key=AGENTS["agent.ada"], **options)
    for name, agent in agents.items():
        runtime.register_agent(name, agent)
    try:
        yield runtime
    finally:
        await runtime.close()


@contextlib.asynccontextmanager
async def client(transport, token, resume=None, **options):
    found = ARCPClient(client=ClientInfo(name="tests", version="1"), token=token, **options)
    try:
        await (found.resume(transport, resume=resume) if resume else found.connect(transport))
        yield found
    finally:
        await found.close()


@contextlib.asynccontextmanager
async def session(runtime, token="ann", **options):
    """Opens a session with a runtime in this process."""
    near, far = pair_memory_transports()
    accepting = asyncio.create_task(runtime.accept(far))
    async with client(near, token, **options) as found:
        yield found
    await accepting


def at(url):
    return url.replace("http", "ws", 1) + "/arcp"


async def messages(handle):
    return [event["body"].get("message") async for event in handle.events() if event["kind"] == "log"]


async def until(done):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def program(url, agent, *arguments):
    """Runs a program whose agent counts, once it has registered that."""
    environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": AGENTS["agent.ada"]}
    with subprocess.Popen([sys.executable, PROGRAM, agent, *arguments], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "registered\n"
            yield process
        finally:
            process.kill()


async def has_agent(bob, name):
    """Waits until the server knows an agent."""
    await until(lambda: any(one.name == name for one in bob.call(operations.list_inventory()).agents))


@pytest.fixture(scope="module", autouse=True)
def long_ones(server):
    """Begins what has to wait for the end of a claim, and takes that time beside the other tests."""
    # The client is closed last: whoever reads with it from another thread would not notice.
    with Entente(server.url, AGENTS["agent.bob"]) as bob, ThreadPoolExecutor() as pool:
        yield {one.__name__: pool.submit(asyncio.run, asyncio.wait_for(one(server.url, bob), PATIENCE)) for one in (killed, blocked)}


@pytest.fixture
def bobs(server):
    with Entente(server.url, AGENTS["agent.bob"]) as found:
        yield found


# What agents see.


@looped
async def test_an_agent_has_the_context_of_the_sdk(server, name):
    @dataclasses.dataclass
    class Report:
        at: datetime

    seen = {}

    async def agent(input, ctx):
        assert isinstance(ctx, JobContext) and isinstance(ctx, SdkContext)
        seen.update(input=input, agent=ctx.agent_ref, lease=ctx.lease, budget=ctx.budget, principal=ctx.job.submitter_principal)
        seen.update(attempt=ctx.attempt, so_far=ctx.progress_so_far, session=ctx.job.session.principal, trace=ctx.trace_id)
        await ctx.log("info", "hello", attributes={"price": Decimal("0.30")})
        await ctx.progress(1, total=2)
        with pytest.raises(ValueError):
            await ctx.progress(3, total=2)
        await ctx.metric({"name": "cost.model", "value": Decimal("0.30"), "unit": "USD"})
        seen.update(left=ctx.budget, acked=ctx.job.session.state.last_acked_seq == ctx.job.session.latest_event_seq)
        with pytest.raises(arcp.InvalidRequestError):
            await ctx.job.session.send(arcp.Envelope(id="msg_01M8FQXHVJ000000NFSQ3RDF52", type="job.event"))
        return Report(at=datetime(2026, 11, 28, tzinfo=timezone.utc))

    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        handle = await ann.submit(agent=name, input={"n": 1}, lease_request={"cost.budget": ["USD:1.00"]}, trace_id="a" * 32)
        told = [(event["kind"], event["body"]) async for event in handle.events()]
        assert (await handle.done).result == {"at": "2026-11-28T00:00:00Z"}
    assert told[0] == ("log", {"level": "info", "message": "hello", "attributes": {"price": "0.30"}})
    assert [kind for kind, _ in told] == ["log", "progress", "metric", "metric"]
    assert told[-1][1]["name"] == "cost.budget.remaining" and float(told[-1][1]["value"]) == 0.7
    assert seen == {
        "input": {"n": 1},
        "agent": name,
        "lease": {"cost.budget": ["USD:1.00"]},
        "budget": {"USD": Decimal(1)},
        "left": {"USD": Decimal("0.7")},
        "principal": "ann@example.org",
        "session": "ann@example.org",
        "attempt": 1,
        "so_far": None,
        "acked": True,
        "trace": "a" * 32,
    }


@looped
async def test_the_server_judges_leases_and_budgets(server, name):
    async def agent(input, ctx):
        refused = []
        for capability, target in [("fs.read", "/work/a"), ("fs.read", "/etc/passwd"), ("fs.read", "/work/../etc/a"), ("tool.call", "x")]:
            try:
                ctx.authorize(capability, target)
            except arcp.PermissionDeniedError:
                refused.append(target)
        with pytest.raises(arcp.InvalidRequestError):
            ctx.authorize("no capability", "x")
        with pytest.raises(arcp.PermissionDeniedError):
            ctx.authorize_model("large")
        ctx.authorize_model("small")
        await ctx.log("info", ",".join(refused))
        while True:
            ctx.authorize("cost.budget", "USD")
            await ctx.metric({"name": "cost.model", "value": 0.4, "unit": "USD"})

    lease = {"fs.read": ["/work/*"], "model.use": ["small"], "cost.budget": ["USD:1.00"]}
    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        handle = await ann.submit(agent=name, lease_request=lease)
        assert await messages(handle) == ["/etc/passwd,/work/../etc/a,x"]
        with pytest.raises(arcp.BudgetExhaustedError):
            await handle.done


@looped
async def test_an_agent_rotates_a_credential(server, name):
    told = asyncio.Event()

    async def agent(input, ctx):
        [found] = ctx.credentials
        with pytest.raises(arcp.InvalidRequestError):
            await ctx.rotate_credential("another", "value")
        await ctx.rotate_credential(found.id, "the-new-value")
        # The end of the job revokes the value, and a session that learns of the rotation only then is told none.
        await told.wait()
        return [found.value != "the-new-value", ctx.credentials[0].value, found.constraints.model_use]

    async with serving(server.url, {name: agent}) as runtime, session(runtime, features=("model.use", "provisioned_credentials")) as ann:
        handle = await ann.submit(agent=name, lease_request={"model.use": ["small"]})
        rotated = []
        async for event in handle.events():
            if event["kind"] == "status":
                rotated.append(event["body"])
                told.set()
        assert (await handle.done).result == [True, "the-new-value", ["small"]]
    assert rotated == [{"phase": "credential_rotated", "id": handle.credentials[0].id, "value": "the-new-value"}]


@looped
async def test_a_failure_has_the_codes_of_the_sdk(server, name):
    async def agent(input, ctx):
        await ctx.log("info", "begun")
        raise {
            "denied": arcp.PermissionDeniedError("not today", details={"day": 6}),
            "upstream": UpstreamBudgetExhausted("nothing left"),
            "late": TimeoutError("too slow"),
            "broken": KeyError("rows"),
            "self": asyncio.CancelledError(),
        }[input]

    ends = {
        "denied": arcp.PermissionDeniedError,
        "upstream": arcp.BudgetExhaustedError,
        "late": arcp.TimeoutError,
        "broken": arcp.InternalError,
        "self": arcp.CancelledError,
    }
    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        handles = {word: await ann.submit(agent=name, input=word) for word in ends}
        for word, kind in ends.items():
            assert await messages(handles[word]) == ["begun"]
            with pytest.raises(kind) as failed:
                await handles[word].done
            assert type(failed.value) is kind
            if word == "denied":
                assert (failed.value.message, failed.value.details) == ("not today", {"day": 6})


# An event that the server does not take is heard of, and takes no other with it.
@looped
async def test_a_refused_event_is_told_and_the_others_are_kept(server, name):
    async def agent(input, ctx):
        for number in range(3):
            await ctx.log("info", str(number))
        await ctx.job.emit_event("no such kind", {})
        await ctx.log("info", "3")
        if input == "hears":
            with pytest.raises(arcp.InvalidRequestError):
                await ctx.checkpoint(1)
        return "done"

    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        for word in ("hears", "hears not"):
            handle = await ann.submit(agent=name, input=word)
            assert await messages(handle) == ["0", "1", "2", "3"]
            if word == "hears":
                assert (await handle.done).result == "done"
            else:
                with pytest.raises(arcp.InvalidRequestError):
                    await handle.done


class Unwritable:
    pass


UNWRITABLE = {"nan": float("nan"), "half": "\ud800", "object": Unwritable()}


@looped
async def test_an_event_that_is_no_json_is_refused_where_it_is_told(server, name):
    async def agent(input, ctx):
        refused = []
        for number, (word, value) in enumerate(UNWRITABLE.items()):
            await ctx.log("info", str(number))
            try:
                await ctx.job.emit_event("log", {"level": "info", "message": "x", "value": value})
            except arcp.InvalidRequestError:
                refused.append(word)
        return refused

    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        handle = await ann.submit(agent=name)
        assert await messages(handle) == ["0", "1", "2"]
        assert (await handle.done).result == [*UNWRITABLE]


@looped
async def test_a_result_that_is_no_json_fails_its_job_for_good(server, name, bobs):
    ran = []

    async def agent(input, ctx):
        ran.append(input)
        return UNWRITABLE[input]

    async with serving(server.url, {name: agent}) as runtime:
        await until(runtime._worker.registered.is_set)
        for word in UNWRITABLE:
            made = await asyncio.to_thread(bobs.submit_job, name, word, retry={"max_attempts": 3})
            ended = await asyncio.to_thread(bobs.wait_for_job, made.job_id)
            assert ended.terminal["code"] == "INVALID_REQUEST", ended.terminal
    assert ran == [*UNWRITABLE]


# Events whose answer was lost may be stored: they are not sent again under other keys.
@looped
async def test_lost_answers_repeat_no_event(server, name, bobs):
    proxy = Proxy(server.url)

    async def agent(input, ctx):
        own = ctx.job.reports.claimed
        transport = own._transport
        own._transport = Transport(dataclasses.replace(transport.settings, patience=0), transport.http)
        proxy.lose_answers(f"POST /api/v1/jobs/{ctx.job_id}/events", 1)
        await asyncio.gather(*(ctx.log("info", str(number)) for number in range(3)))
        try:
            await ctx.checkpoint(1)
            told = "nothing"
        except arcp.InternalError as lost:
            told = lost.message
        own._transport = transport
        await ctx.log("info", "3")
        return told

    try:
        async with serving(proxy.url, {name: agent}) as runtime:
            await until(runtime._worker.registered.is_set)
            made = await asyncio.to_thread(bobs.submit_job, name)
            ended = await asyncio.to_thread(bobs.wait_for_job, made.job_id)
            assert (ended.status, proxy.lost) == ("success", 1)
            assert "may have happened" in await asyncio.to_thread(bobs.call, operations.get_job_result(made.job_id))
    finally:
        proxy.close()
    events = bobs.call(operations.job_events(made.job_id)).events
    assert [one.payload["body"]["message"] for one in events if one.payload.get("kind") == "log"] == ["0", "1", "2", "3"]


@looped
async def test_a_streamed_result_is_divided_where_it_must_be(server, name):
    text, data = "é" * 400_000, os.urandom(1_100_000)

    async def agent(input, ctx):
        async with ctx.stream_result() as stream:
            await stream.write(text if input == "text" else data)
            await stream.close(summary="long")
        await ctx.log("info", "after the end")

    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        for word, expected in (("text", text.encode()), ("bytes", data)):
            handle = await ann.submit(agent=name, input=word)
            assert await handle.collect_chunks() == expected
            result = await handle.done
            assert (result.final_status, result.result_size, result.summary) == ("success", len(expected), "long")


@looped
async def test_a_cancelled_agent_cleans_up(server, name):
    begun, signals = asyncio.Event(), []

    async def agent(input, ctx):
        try:
            begun.set()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            signals.append(ctx.signal.is_set())
            await ctx.log("info", "cleaning up")
            raise

    async with serving(server.url, {name: agent}) as runtime, session(runtime) as ann:
        handle = await ann.submit(agent=name)
        await begun.wait()
        await ann.cancel_job(handle.job_id)
        assert await messages(handle) == ["cleaning up"]
        with pytest.raises(arcp.CancelledError):
            await handle.done
    assert signals == [True]


@looped
async def test_agents_are_registered_at_any_time_and_with_versions(server, name):
    def version(word):
        async def agent(input, ctx):
            return [word, ctx.agent, ctx.agent_version]

        return agent

    async with serving(server.url, {name: version("bare")}) as runtime, session(runtime) as ann:

        async def run(agent):
            return (await (await ann.submit(agent=agent)).done).result

        assert await run(name) == ["bare", name, None]
        runtime.register_agent_version(f"{name}-b", "1.0.0", version("one"))
        runtime.register_agent_version(f"{name}-b", "2.0.0", version("two"))
        await until(runtime._worker.registered.is_set)
        assert await run(f"{name}-b") == ["one", f"{name}-b", "1.0.0"]
        assert await run(f"{name}-b@2.0.0") == ["two", f"{name}-b", "2.0.0"]
        runtime.set_default_agent_version(f"{name}-b", "2.0.0")
        await until(runtime._worker.registered.is_set)
        assert await run(f"{name}-b") == ["two", f"{name}-b", "2.0.0"]
        with pytest.raises(arcp.InvalidRequestError):
            runtime.register_agent("Not-Small", version("none"))


# What outlives what.


async def killed(url, bob, name="killed"):
    with program(url, name) as first:
        await has_agent(bob, name)
        async with client(await WebSocketTransport.connect(at(url)), AGENTS["agent.bob"], handshake_timeout_sec=30) as session:
            handle = await session.submit(agent=name, input={"to": 5, "waits_at": 2})
            assert await asyncio.to_thread(first.stdout.readline) == "waits\n"
            first.send_signal(signal.SIGKILL)
            with program(url, name):
                return await messages(handle), (await handle.done).result


# While an agent blocks the event loop of its program, the worker's heartbeats go on.
async def blocked(url, bob, name="blocked"):
    async def agent(input, ctx):
        await ctx.checkpoint("begun")
        time.sleep(float(ARCP_SETTINGS["ENTENTE_CLAIM_SECONDS"]) + 2)
        return ctx.attempt

    async with serving(url, {name: agent}):
        await has_agent(bob, name)
        return await asyncio.to_thread(bob.run_job, name)


# What a program had that ends comes back at once, and not when its claim ends.
@looped
async def test_a_program_that_ends_hands_its_jobs_back(server, name, bobs):
    async def job(agent):
        await has_agent(bobs, agent)
        return bobs.submit_job(agent, {"to": 5, "waits_at": 2}).job_id

    with program(server.url, name, "leaves") as leaving, program(server.url, f"{name}-b") as terminated:
        jobs = [await job(name), await job(f"{name}-b")]
        assert await asyncio.to_thread(terminated.stdout.readline) == "waits\n"
        terminated.terminate()
        assert await asyncio.to_thread(terminated.wait, PATIENCE) == 128 + signal.SIGTERM
        assert await asyncio.to_thread(leaving.wait, PATIENCE) == 0
    for one in jobs:
        found = bobs.call(operations.get_job(one))
        assert (found.status, found.claim) == ("pending", None)


@looped
async def test_a_closed_runtime_hands_its_jobs_back(server, name):
    begun = asyncio.Event()

    async def waiting(input, ctx):
        await ctx.log("info", "first")
        await ctx.checkpoint({"rows": 500})
        begun.set()
        await asyncio.sleep(600)

    async def going_on(input, ctx):
        return ctx.progress_so_far

    async with client(await WebSocketTransport.connect(at(server.url)), AGENTS["agent.bob"]) as bob:
        async with serving(server.url, {name: waiting}) as runtime:
            await until(runtime._worker.registered.is_set)
            handle = await bob.submit(agent=name)
            await begun.wait()
        with pytest.raises(arcp.InvalidRequestError):
            runtime.register_agent("late", waiting)
        async with serving(server.url, {name: going_on}):
            assert (await handle.done).result == {"rows": 500}


@looped
async def test_two_copies_share_the_work(server, name):
    at_once = set()

    def copy(number):
        async def agent(input, ctx):
            at_once.add(number)
            await until(lambda: len(at_once) == 2)
            return number

        return {name: agent}

    one = {"max_concurrent_jobs": 1}
    async with serving(server.url, copy(1), **one) as runtime, serving(server.url, copy(2), **one), session(runtime) as ann:
        handles = [await ann.submit(agent=name) for _ in range(6)]
        assert {(await handle.done).result for handle in handles} == {1, 2}


@looped
async def test_broken_connections_lose_and_repeat_nothing(server, name, bobs):
    proxy = Proxy(server.url)

    async def agent(input, ctx):
        for number in range(10):
            await ctx.log("info", str(number))
            await asyncio.sleep(0.02)
        return input

    try:
        async with serving(proxy.url, {name: agent}) as runtime, session(runtime, handshake_timeout_sec=30) as ann:
            handles = []
            for number in range(8):
                submitting = asyncio.create_task(ann.submit(agent=name, input=number))
                await asyncio.sleep(number / 200)
                proxy.cut()
                handles.append(await submitting)
                if number == 4:
                    # The client does not know of the tokens with which its session was resumed meanwhile.
                    proxy.cut()
            assert len({handle.job_id for handle in handles}) == 8
            for number, handle in enumerate(handles):
                assert await messages(handle) == [str(one) for one in range(10)]
                assert (await handle.done).result == number
            assert len((await ann.list_jobs(limit=100)).jobs) >= 8
    finally:
        proxy.close()
    with Entente(server.url, server.operator) as operator:
        assert len(operator.call(operations.list_jobs(agent=name)).jobs) == 8


@looped
async def test_a_client_resumes_a_session_that_was_resumed_for_it(server, name):
    proxy = Proxy(server.url)
    go_on = asyncio.Event()

    async def agent(input, ctx):
        await ctx.log("info", "before")
        await go_on.wait()
        await ctx.log("info", "after")

    try:
        async with serving(proxy.url, {name: agent}) as runtime:
            near, far = pair_memory_transports()
            accepting = asyncio.create_task(runtime.accept(far))
            first = ARCPClient(client=ClientInfo(name="tests", version="1"), token="ann")
            welcome = await first.connect(near)
            handle = await first.submit(agent=name)
            assert (await anext(aiter(handle.events())))["body"]["message"] == "before"
            proxy.cut()
            # Its answer comes over another connection.
            await first.list_jobs()
            await near.close()
            await accepting
            resume = SessionResume(session_id=welcome.session_id, resume_token=welcome.resume_token, last_event_seq=first.latest_event_seq)
            async with session(runtime, resume=resume) as second:
                assert second.session_id == first.session_id
                again = await second.subscribe(handle.job_id, history=True)
                go_on.set()
                assert await messages(again.handle) == ["before", "after"]
            forged = resume.model_copy(update={"resume_token": "rt_" + "0" * 64})
            with pytest.raises(arcp.ResumeWindowExpiredError):
                async with session(runtime, resume=forged):
                    pass
    finally:
        proxy.close()


@looped
async def test_a_server_that_hangs_keeps_no_client(name):
    async def silent(connection):
        await connection.recv()
        await connection.wait_closed()

    async def agent(input, ctx):
        raise AssertionError

    async with serve(silent, "127.0.0.1", 0, close_timeout=1) as hanging:
        port = hanging.sockets[0].getsockname()[1]
        runtime = ARCPRuntime(
            runtime=RuntimeInfo(name="tests", version="1"),
            bearer=StaticBearerVerifier({"ann": "ann@example.org"}),
            base_url=f"http://127.0.0.1:{port}",
            api_key=AGENTS["agent.ada"],
        )
        near, far = pair_memory_transports()
        accepting = asyncio.create_task(runtime.accept(far))
        with pytest.raises(arcp.InternalError, match="cannot be reached"):
            async with client(near, "ann", handshake_timeout_sec=30):
                pass
        await accepting
        await runtime.close()


@looped
async def test_an_agent_cleans_up_in_one_time_with_its_events(server, name, bobs, monkeypatch):
    limit = 4.0
    monkeypatch.setattr("entente.arcp.jobs.CLEANUP", limit)
    proxy = Proxy(server.url)
    begun = asyncio.Event()

    async def agent(input, ctx):
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            # The server is away: this never arrives.
            proxy.down = True
            proxy.cut()
            await ctx.log("info", "cleaning up")
            await asyncio.sleep(limit - 0.5)

    try:
        async with serving(proxy.url, {name: agent}) as runtime:
            await has_agent(bobs, name)
            await asyncio.to_thread(bobs.submit_job, name)
            await begun.wait()
            stopped = time.monotonic()
            await runtime.close()
            # Its grace at both ends; twice the time would be some seconds more.
            assert time.monotonic() - stopped < limit + 2 * GRACE + 2
    finally:
        proxy.close()


# Who a client is.


class Verifier:
    """Knows everybody by the number of their token."""

    async def verify(self, token):
        return Identity(principal=f"number-{int(token)}")


@looped
async def test_the_runtime_says_who_its_clients_are(server, name):
    async def agent(input, ctx):
        return ctx.job.submitter_principal

    async with serving(server.url, {name: agent}, bearer=Verifier()) as runtime:
        for token in ("7", "8"):
            async with session(runtime, token) as found:
                assert (await (await found.submit(agent=name)).done).result == f"number-{token}"
        with pytest.raises(arcp.UnauthenticatedError):
            async with session(runtime, "seven"):
                pass
    async with serving(server.url, {name: agent}) as runtime:
        with pytest.raises(arcp.UnauthenticatedError):
            async with session(runtime, "nobody's"):
                pass
        near, far = pair_memory_transports()
        accepting = asyncio.create_task(runtime.accept(far))
        await near.send({"arcp": "1.1", "id": "msg_01M8FQXHVJ000000NFSQ3RDF52", "type": "job.submit", "payload": {}})
        assert (await near.recv())["payload"]["code"] == "INVALID_REQUEST"
        await accepting


# Without the secret of the server's tokens a runtime speaks for nobody: the client's token opens the session, or does not.
@looped
async def test_without_a_secret_the_clients_token_is_the_servers(server, name):
    async def agent(input, ctx):
        return ctx.job.submitter_principal

    bearer = StaticBearerVerifier({AGENTS["agent.bob"]: "somebody", "unknown": "somebody"})
    async with serving(server.url, {name: agent}, bearer=bearer, token_secret=None) as runtime:
        async with session(runtime, AGENTS["agent.bob"]) as bob:
            assert (await (await bob.submit(agent=name)).done).result == "agent.bob"
        with pytest.raises(arcp.UnauthenticatedError):
            async with session(runtime, "unknown"):
                pass


@looped
async def test_what_is_missing_is_said(server, name, monkeypatch, caplog):
    async def agent(input, ctx):
        raise AssertionError

    monkeypatch.delenv("ENTENTE_API_KEY", raising=False)
    with pytest.raises(EntenteError, match="ENTENTE_API_KEY"):
        ARCPRuntime(runtime=RuntimeInfo(name="tests", version="1"), bearer=StaticBearerVerifier({}), base_url=server.url)
    with caplog.at_level("WARNING", log.name):
        wrong = ARCPRuntime(
            runtime=RuntimeInfo(name="tests", version="1"),
            bearer=StaticBearerVerifier({}),
            base_url=server.url,
            api_key="nobody's",
            job_authorization_policy=lambda _: True,
        )
        wrong.register_agent(name, agent)
        await until(lambda: not wrong._thread.is_alive())
        await wrong.close()
    assert "ENTENTE_ARCP_OPEN_POLICY" in caplog.text and "take no more jobs: 401" in caplog.text


# The end of the claims has come meanwhile; the server may go away.


def test_a_killed_program_loses_nothing(long_ones):
    told, result = long_ones["killed"].result()
    assert told == ["1", "2", "3", "4", "5"]
    assert result == {"from": 3, "attempt": 2}


def test_an_agent_that_blocks_its_program_keeps_its_job(long_ones):
    assert long_ones["blocked"].result() == 1


@looped
async def test_a_restarted_server_is_not_noticed(server, name, long_ones):
    wait(long_ones.values())
    proxy = Proxy(server.url)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def agent(input, ctx):
        for number in range(input):
            await ctx.log("info", str(number))
            if number == 2:
                begun.set()
                await go_on.wait()
        return ctx.attempt

    try:
        async with serving(proxy.url, {name: agent}) as runtime, session(runtime, handshake_timeout_sec=30) as ann:
            handle = await ann.submit(agent=name, input=6)
            told = asyncio.create_task(messages(handle))
            await begun.wait()
            await asyncio.to_thread(server.stop)
            go_on.set()
            # It waits for the server as well.
            later = asyncio.create_task(ann.submit(agent=name, input=0))
            listed = asyncio.create_task(ann.list_jobs())
            await asyncio.sleep(0.2)
            proxy.aim((await asyncio.to_thread(server.start)).url)
            assert await told == [str(number) for number in range(6)]
            assert (await handle.done).result == 1
            assert (await (await later).done).result == 1
            assert handle.job_id in {one.job_id for one in (await listed).jobs}
    finally:
        proxy.close()
