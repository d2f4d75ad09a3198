# Drives the Python SDK of MCP (2.x) against the server at ENTENTE_URL, in the era of its first argument: reads steps from
# its second, a JSON list of [method, arguments], and prints what came of each. `listen` opens a subscription to a
# resource, calls a tool that changes it, and waits for the event.

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 20


async def listened(client: Client, uri: str, tool: str, arguments: dict) -> dict:
    async with client.listen(resource_subscriptions=[uri]) as subscription:
        await client.call_tool(tool, arguments)
        async for event in subscription:
            honored = subscription.honored.model_dump(by_alias=True, exclude_none=True)
            return {"uri": event.uri, "event": type(event).__name__, "honored": honored}


async def main() -> None:
    url, headers = os.environ["ENTENTE_URL"], {"Authorization": f"Bearer {os.environ['ENTENTE_API_KEY']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=sys.argv[1]) as client:
            server = client.server_info.model_dump(by_alias=True, exclude_none=True)
            answers = [{"server": server, "instructions": client.instructions, "version": client.protocol_version}]
            for method, arguments in json.loads(sys.argv[2]):
                if method == "listen":
                    answers.append(await asyncio.wait_for(listened(client, **arguments), PATIENCE))
                    continue
                answer = await getattr(client, method)(**arguments)
                answers.append(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    print(json.dumps(answers))


asyncio.run(main())
