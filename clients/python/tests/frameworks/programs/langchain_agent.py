# LangChain's agent on LangGraph, with its middleware for people; checkpoints are kept in Entente.

import os

from entente.integrations.langgraph import EntenteSaver, invoke
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from . import payments


class Model(BaseChatModel):
    """A model that proposes what the prompt says."""

    @property
    def _llm_type(self):
        return "stub"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        asked = max(n for n, one in enumerate(messages) if isinstance(one, HumanMessage))
        told = [one.content for one in messages[asked:] if isinstance(one, ToolMessage)]
        if told:
            found = AIMessage(payments.said(told))
        else:
            calls = payments.proposed(messages[asked].content)
            found = AIMessage("", tool_calls=[{"name": "pay", "args": arguments, "id": id} for id, arguments in calls])
        return ChatResult(generations=[ChatGeneration(message=found)])


def go(person, run, prompt, ledger, mode=os.environ.get("MODE", "batched"), allowed=("approve", "edit", "reject", "respond")):
    @tool
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return payments.pay(ledger, amount, to)

    human = HumanInTheLoopMiddleware({"pay": {"allowed_decisions": list(allowed)}}, interrupt_mode=mode)
    agent = create_agent(Model(), [pay], middleware=[human], checkpointer=EntenteSaver())
    config = {"configurable": {"thread_id": run}}
    found = invoke(agent, {"messages": [HumanMessage(prompt)]}, config, person=person)
    return found["messages"][-1].content
