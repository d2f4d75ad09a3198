# An assistant of AutoGen AgentChat, whose tools are a workbench of ours.

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from entente.integrations.autogen import Approvals
from entente.integrations.person import of

from . import payments

INFO = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown", "structured_output": False}


def go(person, run, prompt, ledger):
    def pay(amount: int, to: str) -> str:
        return payments.pay(ledger, amount, to)

    async def main():
        model = OpenAIChatCompletionClient(model="stub", api_key="none", base_url=f"{os.environ['STUB_URL']}/v1", model_info=INFO)
        bench = Approvals([FunctionTool(pay, description="Pays somebody.")], of(person, run))
        agent = AssistantAgent("payer", model_client=model, workbench=bench, reflect_on_tool_use=True)
        return (await agent.run(task=prompt)).messages[-1].content

    return asyncio.run(main())
