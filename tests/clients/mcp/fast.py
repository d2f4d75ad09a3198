# Drives FastMCP's client with its companion for the tasks extension of 2026-07-28 against the server at ENTENTE_URL, and
# prints what it saw: tools, and a job that is a task, from `working` to its result.

import asyncio
import json
import os

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp_tasks import call_tool_task

AGENT = "mcp-fast"


async def main() -> None:
    url, headers = os.environ["ENTENTE_URL"], {"Authorization": f"Bearer {os.environ['ENTENTE_API_KEY']}"}
    async with Client(StreamableHttpTransport(f"{url}/mcp", headers=headers)) as client:
        seen = {"tools": [tool.name for tool in await client.list_tools()]}
        seen["me"] = (await client.call_tool("whoami", {})).structured_content
        missing = {"channel": "chan_nobody"}
        refused = await client.call_tool("read_messages", missing, raise_on_error=False)
        seen["refused"] = {"is": refused.is_error, "text": refused.content[0].text}
        await client.call_tool("claim_job", {"agents": [AGENT], "register": True})
        task = await call_tool_task(client, "submit_job", {"agent": AGENT})
        seen["begun"] = {"id": task.task_id, "status": (await task.status()).status}
        held = (await client.call_tool("claim_job", {"agents": [AGENT]})).structured_content["job"]
        claim = {"job_id": held["job_id"], "claim_token": held["claim_token"]}
        await client.call_tool("finish_job", claim | {"result": {"ok": True}})
        seen["over"] = (await task.result()).structured_content
        other = await call_tool_task(client, "submit_job", {"agent": AGENT})
        await other.cancel()
        seen["cancelled"] = (await other.wait(timeout=20)).status
    print(json.dumps(seen))


asyncio.run(main())
