# The server as a child process that speaks ARCP over standard input and output (ARCP-W-10.14), with the SDK's transport.

import asyncio
import contextlib
import os
import socket
import tempfile

from arcp import ClientInfo, StdioTransport
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
