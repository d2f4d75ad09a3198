# ARCP's own Python runtime, unmodified, with the agents that the kit asks for: `echo` ends at once, `slow` when it is cancelled.

import asyncio
import sys

from arcp import RuntimeInfo, serve_websocket
from arcp.runtime import ARCPRuntime, StaticBearerVerifier


async def echo(given, context):
    await context.log("info", "echo started")
    return {"echoed": given}


async def slow(_, __):
    await asyncio.sleep(3600)


async def main(port: str, *keys: str):
    runtime = ARCPRuntime(
        runtime=RuntimeInfo(name="arcp", version="1.1.3"),
        bearer=StaticBearerVerifier({key: f"principal-{number}" for number, key in enumerate(keys)}),
    )
    runtime.register_agent("echo", echo)
    runtime.register_agent("slow", slow)
    async with await serve_websocket(runtime.accept, host="127.0.0.1", port=int(port), path="/arcp") as server:
        await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
