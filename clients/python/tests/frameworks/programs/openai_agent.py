# An agent of the OpenAI Agents SDK.

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, function_tool, set_tracing_disabled
from entente.integrations.openai_agents import run as run_agent
from openai import AsyncOpenAI

from . import payments

set_tracing_disabled(True)


def go(person, run, prompt, ledger):
    @function_tool(needs_approval=True)
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return payments.pay(ledger, amount, to)

    async def main():
        client = AsyncOpenAI(base_url=f"{os.environ['STUB_URL']}/v1", api_key="none")
        agent = Agent(name="payer", tools=[pay], model=OpenAIChatCompletionsModel("stub", client))
        return (await run_agent(agent, prompt, run=run, person=person)).final_output

    return asyncio.run(main())
