# The server as a child process that speaks ARCP over standard input and output (ARCP-W-10.14), with the SDK's transport.

import asyncio
import contextlib
import os
import socket
import tempfile

import pytest
from arcp import ClientInfo, InternalError, StdioTransport, UnauthenticatedError
from arcp.client import ARCPClient
from arcp_kit import ADA, events, looped, worker
from conftest import AGENTS, PROGRAM, SERVICE, STOP_LIMIT, environment


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@looped
async def test_a_child_process_serves_a_session():
    port = free_port()
    seeds = [f"--seed=service:{SERVICE}={SERVICE}", *(f"--seed=agent:{agent}={key}" for agent, key in AGENTS.items())]
    with tempfile.TemporaryDirectory(prefix="entente-stdio-") as home:
        os.chmod(home, 0o755)
        child = await asyncio.create_subprocess_exec(
            PROGRAM, "arcp-stdio", f"--bind=127.0.0.1:{port}", "--data-dir=data", *seeds,
            cwd=home, env=environment(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            wire = await StdioTransport.from_process_pipes(child)
            client = ARCPClient(client=ClientInfo(name="tests", version="1"), token=ADA, handshake_timeout_sec=30)
            await client.connect(wire)
            with worker(f"http://127.0.0.1:{port}", SERVICE):
                job = await client.submit(agent="counter", input={"to": 3})
                assert (await job.done).result == 3
                assert [event["body"]["message"] for event in await events(job)] == ["0", "1", "2"]
                # The SDK's reader takes lines of up to 64 KiB: chunks are cut smaller for it.
                large = await client.submit(agent="large", input={"letters": 150_000})
                assert (await large.done).result_size == 300_000
                assert await large.collect_chunks() == ("é" * 150_000).encode()
            await client.close()
            assert await asyncio.wait_for(child.wait(), STOP_LIMIT) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()


@contextlib.asynccontextmanager
async def relay(url: str, **settings: str):
    """Runs `entente arcp-stdio --url`, and checks its end unless the test has waited for it."""
    child = await asyncio.create_subprocess_exec(
        PROGRAM, "arcp-stdio", f"--url={url}", env=environment() | settings,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()


def client(token: str = ADA, **options) -> ARCPClient:
    return ARCPClient(client=ClientInfo(name="tests", version="1"), token=token, **options)


@looped
async def test_a_child_process_relays_the_session_of_a_running_server(served):
    async with relay(served) as child:
        # The SDK's own limit for the welcome is five seconds.
        one = client()
        await one.connect(await StdioTransport.from_process_pipes(child))
        job = await one.submit(agent="counter", input={"to": 3})
        assert (await job.done).result == 3
        assert [event["body"]["message"] for event in await events(job)] == ["0", "1", "2"]
        large = await one.submit(agent="large", input={"letters": 150_000})
        assert (await large.done).result_size == 300_000
        assert await large.collect_chunks() == ("é" * 150_000).encode()
        streamed = {"parts": ["AAEC", "/w=="], "encoding": "base64", "closes": True}
        job = await one.submit(agent="streamer", input=streamed)
        await job.done
        assert await job.collect_chunks() == b"\x00\x01\x02\xff"
        await one.close()
        assert await asyncio.wait_for(child.wait(), STOP_LIMIT) == 0
        assert await child.stderr.read() == b""


@looped
async def test_many_relays_share_one_server(served):
    async def ask(number: int) -> int:
        async with relay(served) as child:
            one = client()
            await one.connect(await StdioTransport.from_process_pipes(child))
            result = (await (await one.submit(agent="counter", input={"to": number})).done).result
            await one.close()
            return result

    assert await asyncio.gather(*(ask(number) for number in range(5))) == list(range(5))


@looped
async def test_a_relay_says_why_there_is_no_session(served):
    async with relay(served) as child:
        with pytest.raises(UnauthenticatedError):
            await client(token="wrong").connect(await StdioTransport.from_process_pipes(child))
        assert await asyncio.wait_for(child.wait(), STOP_LIMIT) == 7
        assert b"ENTENTE_API_KEY" in await child.stderr.read()
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with relay(nowhere) as child:
        with pytest.raises(InternalError, match="no answer from"):
            await client().connect(await StdioTransport.from_process_pipes(child))
        assert await asyncio.wait_for(child.wait(), STOP_LIMIT) == 8
        assert nowhere.encode() in await child.stderr.read()
