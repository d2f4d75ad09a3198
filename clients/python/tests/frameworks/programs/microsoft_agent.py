# An agent of the Microsoft Agent Framework.

import asyncio
import os

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient
from entente.integrations.agent_framework import Approvals
from entente.integrations.person import of

from . import payments


def go(person, run, prompt, ledger):
    @tool(approval_mode="never_require")
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return payments.pay(ledger, amount, to)

    async def main():
        client = OpenAIChatCompletionClient(model="stub", api_key="none", base_url=f"{os.environ['STUB_URL']}/v1")
        agent = Agent(client=client, tools=[pay], middleware=[Approvals(of(person, run), tools=["pay"])])
        return (await agent.run(prompt)).text

    return asyncio.run(main())
