"""CrewAI: calls of tools are put to a person before they run, and so are the results of tasks with `human_input`.

    payer = Agent(role="Payer", goal="Pay.", backstory="", tools=[approved(pay, "human.ada")])
    task = Task(description="Pay Bob.", expected_output="What was paid.", agent=payer, human_input=True)
    with human_input("human.ada"):
        Crew(agents=[payer], tasks=[task]).kickoff()

With `Person("human.ada", run="q1")` in place of the name, a killed program finds its questions again when it is started anew. CrewAI's
hooks are not used: a tool runs if one of them fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crewai.agents.parser import AgentFinish
from crewai.core.providers.human_input import AsyncExecutorContext, ExecutorContext, SyncHumanInputProvider, reset_provider, set_provider
from crewai.tools import BaseTool
from pydantic import PrivateAttr

from .. import _approvals
from .._approvals import Call, Verdict
from .person import Person, of


class Approved(BaseTool):
    """A tool that runs once a person has approved the call."""

    _tool: BaseTool = PrivateAttr()
    _person: Person = PrivateAttr()

    def _run(self, **arguments: Any) -> Any:
        verdict = self._person.approve(self._call(arguments))
        return self._tool.run(**verdict.arguments) if verdict.approved else verdict.message

    async def _arun(self, **arguments: Any) -> Any:
        verdict: Verdict = await self._person.aapprove(self._call(arguments))
        return await self._tool.arun(**verdict.arguments) if verdict.approved else verdict.message

    def _call(self, arguments: dict[str, Any]) -> Call:
        return Call(self.name, arguments)


def _uncached(arguments: Any = None, result: Any = None) -> bool:
    return False


def approved(tool: BaseTool, person: Person | str) -> BaseTool:
    """Returns a tool that asks a person before each call. Neither its results nor their answers are cached."""
    found = Approved(
        name=tool.name,
        description=tool.description,
        args_schema=tool.args_schema,
        result_as_answer=tool.result_as_answer,
        cache_function=_uncached,
    )
    found._tool, found._person = tool, of(person)
    return found


@contextmanager
def human_input(person: Person | str, accept: str = "Accept it", reject: str = "Reject it") -> Iterator[None]:
    """Lets a person review the results of tasks with `human_input` while the block runs: what they write goes to the agent, which tries
    again, until they accept the result. A review that ends without an answer accepts nothing, and raises TimeoutError."""
    token = set_provider(_Review(of(person), accept, reject))
    try:
        yield
    finally:
        reset_provider(token)


class _Review(SyncHumanInputProvider):
    def __init__(self, person: Person, accept: str, reject: str) -> None:
        self._person, self._labels = person, (accept, reject)

    def handle_feedback(self, formatted_answer: AgentFinish, context: ExecutorContext) -> AgentFinish:
        answer = formatted_answer
        while context.ask_for_human_input:
            question = self._question(answer, context)
            if self._goes_on(_approvals.words(self._person.decide(question), question), context):
                answer = context._invoke_loop()
        return answer

    async def handle_feedback_async(self, formatted_answer: AgentFinish, context: AsyncExecutorContext) -> AgentFinish:
        answer = formatted_answer
        while context.ask_for_human_input:
            question = self._question(answer, context)
            if self._goes_on(_approvals.words(await self._person.adecide(question), question), context):
                answer = await context._ainvoke_loop()
        return answer

    def _question(self, answer: AgentFinish, context: ExecutorContext) -> dict[str, Any]:
        task = context.task.description if context.task else ""
        found = self._get_output_string(answer)
        stem = f"Is the result of this task good enough: {found}"
        return _approvals.open_question(stem, self._labels, "The task ends with this result.", {"task": task})

    def _goes_on(self, words: Any, context: ExecutorContext) -> bool:
        """Takes an answer, and returns whether the agent tries again."""
        accept, reject = self._labels
        if isinstance(words, dict) and "ended" in words:
            raise TimeoutError(f"Nobody reviewed the result: the question is {words['ended']}.")
        if words == accept:
            context.ask_for_human_input = False
            return False
        told = words["refused"] if isinstance(words, dict) else words
        context.messages.append(context._format_feedback_message("I reject this result." if told == reject else told))
        return True
