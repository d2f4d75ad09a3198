# The Claude Agent SDK with its real program, which asks a model on loopback.

import asyncio
import os
import tempfile

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, create_sdk_mcp_server, tool
from entente.integrations.claude_agent_sdk import approvals
from entente.integrations.person import of

from . import payments


def go(person, run, prompt, ledger):
    @tool("pay", "Pays somebody.", {"amount": int, "to": str})
    async def pay(arguments):
        return {"content": [{"type": "text", "text": payments.pay(ledger, arguments["amount"], arguments["to"])}]}

    async def main():
        with tempfile.TemporaryDirectory() as home:
            options = ClaudeAgentOptions(
                can_use_tool=approvals(of(person, run)),
                mcp_servers={"bank": create_sdk_mcp_server("bank", tools=[pay])},
                tools=[],
                setting_sources=[],
                cwd=home,
                model="claude-sonnet-4-5",
                env={
                    "HOME": home,
                    "CLAUDE_CONFIG_DIR": home,
                    "ANTHROPIC_BASE_URL": os.environ["STUB_URL"],
                    "ANTHROPIC_API_KEY": "none",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    # On a busy machine the model would be asked before it has the tool.
                    "MCP_CONNECTION_NONBLOCKING": "0",
                    "DISABLE_AUTOUPDATER": "1",
                },
            )
            async with ClaudeSDKClient(options) as claude:
                while any(one["status"] == "pending" for one in (await claude.get_mcp_status())["mcpServers"]):
                    await asyncio.sleep(0.1)
                await claude.query(prompt)
                async for message in claude.receive_response():
                    if isinstance(message, ResultMessage):
                        return message.result

    return asyncio.run(main())
