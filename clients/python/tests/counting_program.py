# A program whose agent is written for ARCP's SDK, but for one import: it counts, and goes on where an earlier program has stopped.
# It waits at the number that its input names, in its first attempt. With `leaves` the program ends by itself, and closes nothing.

import asyncio
import sys

from arcp import RuntimeInfo
from entente.arcp import ARCPRuntime, JobContext, StaticBearerVerifier

NAME = sys.argv[1]
begun = asyncio.Event()


async def counter(input: dict, ctx: JobContext) -> dict:
    first = (ctx.progress_so_far or 0) + 1
    for number in range(first, input["to"] + 1):
        await ctx.log("info", str(number))
        await ctx.checkpoint(number)
        if ctx.attempt == 1 and number == input["waits_at"] and not input.get("resumes"):
            begun.set()
            await asyncio.sleep(600)
    return {"from": first, "attempt": ctx.attempt}


async def main() -> None:
    runtime = ARCPRuntime(runtime=RuntimeInfo(name="program", version="1"), bearer=StaticBearerVerifier({}))
    runtime.register_agent(NAME, counter)
    print("registered", flush=True)
    await begun.wait()
    print("waits", flush=True)
    await asyncio.sleep(0 if "leaves" in sys.argv else 600)


asyncio.run(main())
