# A crew of CrewAI with one agent.

import os

# Nothing is told to anybody else, or asked on a terminal.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_DISABLE_TRACKING": "true", "CREWAI_TRACING_ENABLED": "false"}
os.environ |= {"OTEL_SDK_DISABLED": "true", "CREWAI_TESTING": "true", "CREWAI_DISABLE_VERSION_CHECK": "true"}

from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402
from entente.integrations import Person  # noqa: E402
from entente.integrations.crewai import approved, human_input  # noqa: E402
from entente.integrations.person import of  # noqa: E402

from . import payments  # noqa: E402


def go(person, run, prompt, ledger, review=False):
    @tool("pay")
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return payments.pay(ledger, amount, to)

    who = of(person, run)
    model = LLM(model="openai/gpt-4o", base_url=f"{os.environ['STUB_URL']}/v1", api_key="none")
    payer = Agent(role="Payer", goal="Pay what is asked.", backstory="A clerk.", llm=model, tools=[approved(pay, who)])
    task = Task(description=prompt, expected_output="What was paid.", agent=payer, human_input=review)
    with human_input(who):
        return str(Crew(agents=[payer], tasks=[task]).kickoff())
