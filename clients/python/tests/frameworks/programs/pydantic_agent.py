# An agent of Pydantic AI, with its model for tests.

from entente.integrations.pydantic_ai import Approvals
from entente.integrations.person import of
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from . import payments


def model(messages, info):
    parts = [part for message in messages for part in message.parts]
    results = [part.content for part in parts if isinstance(part, ToolReturnPart)]
    if results:
        return ModelResponse([TextPart(payments.said(results))])
    prompt = next(part.content for part in parts if isinstance(part, UserPromptPart))
    return ModelResponse([ToolCallPart("pay", arguments, id) for id, arguments in payments.proposed(prompt)])


def go(person, run, prompt, ledger):
    agent = Agent(FunctionModel(model), capabilities=[Approvals(of(person, run))])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return payments.pay(ledger, amount, to)

    return agent.run_sync(prompt).output
