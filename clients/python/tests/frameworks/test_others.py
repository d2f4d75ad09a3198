# What single frameworks have beside approvals: runs that are kept, people in a team, code, reviews; and questions that nobody answers.

import asyncio
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import entente
import httpx
import pytest
from entente import _approvals
from entente._generated.answers import Moment
from entente._sync import approvals
from entente.integrations import Call, Person
from human import LEAVE, LIMIT, RUN, Human, ended
from test_approvals import PROGRAMS

CLIENT = Path(__file__).parents[2]
BOB = {"amount": 5, "to": "bob"}
# The packages of the modules that have another name than theirs.
PACKAGES = {name: name for name in ("langgraph", "pydantic_ai", "agent_framework", "crewai", "claude_agent_sdk", "litellm")}
PACKAGES |= {"openai_agents": "agents", "autogen": "autogen_agentchat"}
needs = {name: pytest.mark.skipif(not importlib.util.find_spec(name), reason=f"{name} is not here") for name in PROGRAMS.values()}


def test_nobody_answers(server, start, tmp_path):
    installed = [name for name, package in PROGRAMS.items() if importlib.util.find_spec(package)]
    running = {}
    for name in installed:
        person = Person(Human(server).name, run=uuid.uuid4().hex, expires_in=60)
        program, ledger = importlib.import_module(f"programs.{name}"), tmp_path / name
        running[ledger] = start(lambda go=program.go, person=person, ledger=ledger: go(person, uuid.uuid4().hex, json.dumps([BOB]), ledger))
    for ledger, agent in running.items():
        # A question lasts a minute at least.
        assert "ended without an answer" in agent.result(60 + LIMIT), ledger
        assert not ledger.exists()


def test_an_answer_is_used_once(human, start):
    person = Person(human.name, run=uuid.uuid4().hex)
    first = start(lambda: person.approve(Call("pay", BOB)))
    human.answer(human.waiting()[0], RUN)
    assert first.result().approved
    # The run begins again, and comes to the same call: it would run a second time.
    second = start(lambda: person.approve(Call("pay", BOB)))
    human.answer(human.waiting()[0], LEAVE)
    assert not second.result().approved


def test_an_answer_to_a_named_call_stands(human, start):
    person = Person(human.name, run=uuid.uuid4().hex)
    first = start(lambda: person.approve(Call("pay", BOB, "call_1")))
    human.answer(human.waiting()[0], RUN)
    assert first.result().approved
    assert asyncio.run(person.aapprove(Call("pay", BOB, "call_1"))).approved
    assert len(human.asked()) == 1


def test_a_named_call_that_is_worded_anew_keeps_its_question(human, start):
    run = uuid.uuid4().hex
    first = start(lambda: Person(human.name, run=run).approve(Call("pay", BOB, "call_1")))
    human.answer(human.waiting()[0], RUN)
    assert first.result().approved
    assert Person(human.name, run=run).approve(Call("pay", BOB, "call_1", "The next version says more.")).approved
    assert len(human.asked()) == 1


def test_an_answer_that_an_equal_call_has_used_meanwhile_is_not_used_again(human, start, monkeypatch):
    person = Person(human.name, run=uuid.uuid4().hex)
    call = Call("pay", BOB)
    first = start(lambda: person.approve(call))
    question = human.waiting()[0]
    own = approvals._earlier
    with entente.Entente() as ada:
        known = [own(ada, person._asking, person._asking.named(call))]
    human.answer(question, RUN)
    assert first.result().approved
    # The second call has looked while the first one still waited.
    monkeypatch.setattr(approvals, "_earlier", lambda *given: known.pop() if known else own(*given))
    second = start(lambda: person.approve(call))
    human.answer(human.waiting()[0], LEAVE)
    assert not second.result().approved
    assert len(human.asked()) == 2


@pytest.mark.parametrize("id", [None, "call_1"])
def test_an_answer_stands_when_the_server_has_forgotten_the_key(human, start, id):
    person, call = Person(human.name, run=uuid.uuid4().hex), Call("pay", BOB, id)
    key = person._asking.named(call)
    with entente.Entente() as ada:
        # As it is after a day: the question is there, and its idempotency key is not.
        asked = ada.ask_person(human.name, _approvals.question(call), corr=key, idempotency_key=uuid.uuid4().hex)
    human.answer({"id": asked.id, "envelope_digest": asked.envelope_digest}, RUN)
    # Elsewhere: one that asks again waits for ever.
    assert start(lambda: person.approve(call)).result(30).approved
    assert len(human.asked()) == 1


def test_what_the_server_keeps_of_an_answer_tells_its_label():
    question = _approvals.open_question("Publish?", ("At noon", "At six"), "It is published.")
    kept = {"state": "answered", "binding_moment": None}
    chosen = Moment(kept | {"resolution": {"kind": "option", "option_idx": 1, "answer": None}})
    assert _approvals.words(chosen, question) == "At six"
    assert not approvals._wordless(chosen)
    assert approvals._wordless(Moment(kept | {"resolution": {"kind": "free_text", "option_idx": None, "answer": None}}))


def test_a_person_is_asked_under_the_fences_of_the_client(human, start):
    with entente.Entente() as ada:
        intent = ada.create_intent("Research")
        with ada.lease(intent.id, "/report") as held:
            person = Person(human.name, client=held.client)
        for asking in (lambda: person.approve(Call("pay", BOB)), lambda: asyncio.run(person.aapprove(Call("pay", BOB)))):
            with pytest.raises(entente.LeaseError, match="lease_ended"):
                start(asking).result(30)
    assert human.asked() == []


def test_a_person_is_asked_by_the_agent_that_is_named(server, human, start):
    with entente.Entente(server.url, server.operator) as operator:
        found = start(lambda: Person(human.name, client=operator, agent_id="agent.bob").approve(Call("pay", BOB)))
        question = human.waiting()[0]
        human.answer(question, RUN)
        assert found.result().approved
    assert question["agent_id"] == "agent.bob"


def test_a_person_is_asked_over_the_connections_of_the_client(human, start):
    seen = []
    with entente.Entente(http=httpx.Client(event_hooks={"request": [seen.append]})) as ada:
        found = start(lambda: Person(human.name, client=ada).approve(Call("pay", BOB)))
        human.answer(human.waiting()[0], RUN)
        assert found.result().approved and seen
        # It is the user's, who goes on with it.
        assert ada.whoami().agent_id == "agent.ada"


def test_a_person_is_asked_over_the_connections_of_an_asynchronous_client_in_its_loop(human, start):
    seen = []

    async def note(request):
        seen.append(request)

    async def main():
        async with entente.AsyncEntente(http=httpx.AsyncClient(event_hooks={"request": [note]})) as ada:
            person = Person(human.name, client=ada)
            assert (await person.aapprove(Call("pay", BOB))).approved
            noted = len(seen)
            assert noted > 0
            # A framework asks from a loop of its own.
            assert (await asyncio.to_thread(asyncio.run, person.aapprove(Call("pay", BOB)))).approved
            assert len(seen) == noted
            return person, await ada.whoami()

    running = start(lambda: asyncio.run(main()))
    for _ in range(2):
        human.answer(human.waiting()[0], RUN)
    person, me = running.result()
    assert me.agent_id == "agent.ada"
    # Its client is closed by now.
    later = start(lambda: asyncio.run(person.aapprove(Call("pay", BOB))))
    human.answer(human.waiting()[0], RUN)
    assert later.result().approved


def test_runs_do_not_use_each_others_answers(human, start):
    first = start(lambda: Person(human.name, run="one").approve(Call("pay", BOB)))
    human.answer(human.waiting()[0], RUN)
    assert first.result().approved
    other = start(lambda: Person(human.name, run="two").approve(Call("pay", BOB)))
    human.answer(human.waiting()[0], LEAVE)
    assert not other.result().approved


def test_a_question_of_ones_own(human, start):
    def question(call):
        options = [{"label": "Pay", "reasoning": "Bob waits."}, {"label": "Wait", "reasoning": "He can."}]
        asked = {"stem": f"Pay {call.arguments['to']}?", "options": options, "recommended_idx": 1}
        return {"synopsis": "Bob waits.", "findings": ["He does."], "recommendations": ["Pay."], "offer": "Ask.", "question": asked}

    found = start(lambda: Person(human.name, question=question).approve(Call("pay", BOB)))
    asked = human.waiting()[0]
    assert asked["binding_moment"]["question"]["stem"] == "Pay bob?"
    human.answer(asked, RUN)
    assert found.result().approved


@pytest.mark.parametrize(
    "arguments",
    [{}, {"text": ""}, {"text": "\0"}, {"text": "\n"}, {"text": "é" * 20_000}, {"deep": {"list": [1, None, True]}}, {"": "x"}, {"text": "\ud800"}],
)
def test_hostile_arguments_can_be_asked(human, start, arguments):
    found = start(lambda: Person(human.name).approve(Call("run\n", arguments)))
    human.answer(human.waiting()[0], RUN)
    assert found.result().arguments == arguments


def test_arguments_that_nobody_could_read_are_refused(human):
    with pytest.raises(entente.InvalidError):
        Person(human.name).approve(Call("write", {"text": "x" * 100_000}))
    assert human.asked() == []


@needs["agents"]
def test_a_run_of_openai_goes_on_where_it_was_killed(human, spawn, ledger):
    run, both = uuid.uuid4().hex, json.dumps([BOB, {"amount": 7, "to": "eve"}])
    process = spawn("openai_agent", human.name, run, both)
    first, second = human.waiting(2)
    human.answer(first, RUN)
    process.kill()
    process.wait()
    process = spawn("openai_agent", human.name, run, both)
    human.answer(second, RUN)
    assert ended(process) == "paid 5 to bob | paid 7 to eve"
    assert sorted(ledger.paid) == [[5, "bob"], [7, "eve"]]
    assert len(human.asked()) == 2
    # The run is over, and its name is free for another one.
    process = spawn("openai_agent", human.name, run, "[]")
    assert ended(process) == "Nothing to pay."


@needs["agents"]
def test_a_run_of_openai_that_ends_leaves_those_of_similar_names(human, spawn, ledger):
    run = uuid.uuid4().hex
    process = spawn("openai_agent", human.name, f"{run}0", json.dumps([BOB]))
    question = human.waiting()[0]
    process.kill()
    process.wait()
    assert ended(spawn("openai_agent", human.name, run, "[]")) == "Nothing to pay."
    human.answer(question, RUN)
    assert ended(spawn("openai_agent", human.name, f"{run}0", json.dumps([BOB]))) == "paid 5 to bob"
    assert len(human.asked()) == 1


@needs["agents"]
def test_a_run_of_openai_asks_with_the_client_that_is_given(human, start, model, monkeypatch):
    from agents import Agent, OpenAIChatCompletionsModel, function_tool
    from entente.integrations.openai_agents import run
    from openai import AsyncOpenAI

    @function_tool(needs_approval=True)
    def pay(amount: int, to: str) -> str:
        """Pays somebody."""
        return f"paid {amount} to {to}"

    async def main(client):
        found = OpenAIChatCompletionsModel("stub", AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none"))
        agent = Agent(name="payer", tools=[pay], model=found)
        return (await run(agent, json.dumps([BOB]), run=uuid.uuid4().hex, person=human.name, client=client)).final_output

    with entente.Entente() as ada:
        monkeypatch.delenv("ENTENTE_API_KEY")
        running = start(lambda: asyncio.run(main(ada)))
        human.answer(human.waiting()[0], RUN)
        assert running.result() == "paid 5 to bob"


@needs["agents"]
def test_a_session_of_openai_is_kept(model):
    from agents import Agent, OpenAIChatCompletionsModel, Runner
    from entente.integrations.openai_agents import EntenteSession
    from openai import AsyncOpenAI

    name = uuid.uuid4().hex

    async def turn(words):
        agent = Agent(name="a", model=OpenAIChatCompletionsModel("stub", AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none")))
        await Runner.run(agent, words, session=EntenteSession(name))
        return [one["content"] for one in model.requests[-1][1]["messages"] if one["role"] == "user"]

    async def main():
        assert await turn("One.") == ["One."]
        assert await turn("Two.") == ["One.", "Two."]
        session = EntenteSession(name)
        assert [one["role"] for one in await session.get_items()] == ["user", "assistant", "user", "assistant"]
        assert [one["role"] for one in await session.get_items(1)] == ["assistant"]
        assert await session.get_items(0) == []
        assert (await session.pop_item())["role"] == "assistant"
        assert (await session.get_items())[-1]["content"] == "Two."
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None

    asyncio.run(main())


@needs["autogen_agentchat"]
def test_a_person_takes_part_in_a_team_of_autogen(human, start, model):
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.conditions import TextMentionTermination
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.openai import OpenAIChatCompletionClient
    from entente.integrations.autogen import UserProxyAgent
    from programs.autogen_agent import INFO

    async def main():
        stub = OpenAIChatCompletionClient(model="stub", api_key="none", base_url=f"{model.url}/v1", model_info=INFO)
        writer = AssistantAgent("writer", model_client=stub)
        ada = UserProxyAgent("ada", person=human.name, options=["APPROVE", "Again"])
        team = RoundRobinGroupChat([writer, ada], termination_condition=TextMentionTermination("APPROVE", sources=["ada"]))
        return [(one.source, one.content) for one in (await team.run(task="Write.")).messages if one.type == "TextMessage"]

    team = start(lambda: asyncio.run(main()))
    question = human.waiting()[0]
    assert question["binding_moment"]["question"]["stem"] == "writer: Nothing to pay."
    human.say(question, "Shorter, please.")
    human.refuse(human.waiting()[0], "I am not the one to ask.")
    # A refused question is not put again before its objection is answered, so the team ends here.
    with pytest.raises(Exception, match="refused this very question"):
        team.result()


@needs["autogen_agentchat"]
@pytest.mark.parametrize("approved", [True, False])
def test_code_of_autogen_is_approved(human, start, tmp_path, approved):
    from autogen_agentchat.agents import CodeExecutorAgent
    from autogen_agentchat.messages import TextMessage
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
    from entente.integrations.autogen import approve_code

    class Executor(CodeExecutor):
        ran = []

        async def execute_code_blocks(self, code_blocks: list[CodeBlock], cancellation_token):
            self.ran += [one.code for one in code_blocks]
            return CodeResult(exit_code=0, output="done")

        async def start(self):
            pass

        stop = restart = reset = start

    async def main():
        coder = CodeExecutorAgent("coder", Executor(), approval_func=approve_code(human.name))
        message = TextMessage(content="```python\nprint(1)\n```", source="user")
        return (await coder.on_messages([message], CancellationToken())).chat_message.content

    Executor.ran = []
    found = start(lambda: asyncio.run(main()))
    human.answer(human.waiting()[0], RUN if approved else LEAVE)
    assert (("done" if approved else "said no") in found.result(), Executor.ran) == (True, ["print(1)\n"] if approved else [])


@needs["autogen_agentchat"]
@pytest.mark.parametrize("kind", ["call", "words"])
def test_a_cancelled_run_of_autogen_waits_for_nobody(human, start, kind):
    from autogen_agentchat.messages import TextMessage
    from autogen_core import CancellationToken
    from autogen_core.tools import FunctionTool
    from entente.integrations.autogen import Approvals, UserProxyAgent

    token, paid = CancellationToken(), []

    def pay(to: str) -> None:
        paid.append(to)

    async def main():
        if kind == "call":
            bench = Approvals([FunctionTool(pay, description="Pays somebody.")], human.name)
            waiting = bench.call_tool("pay", {"to": "bob"}, token)
        else:
            waiting = UserProxyAgent("ada", person=human.name).on_messages([TextMessage(content="Publish?", source="bob")], token)
        running = asyncio.ensure_future(waiting)
        await asyncio.to_thread(human.waiting)
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    start(lambda: asyncio.run(main())).result(60)
    assert paid == []


@needs["crewai"]
def test_results_of_a_crew_are_reviewed(human, start, ledger):
    from programs import crew_agent

    crew = start(lambda: crew_agent.go(human.name, uuid.uuid4().hex, "[]", ledger.path, review=True))
    question = human.waiting()[0]
    assert "Nothing to pay." in question["binding_moment"]["question"]["stem"]
    human.say(question, 'Then [{"amount": 5, "to": "bob"}]')
    human.answer(human.waiting()[0], RUN)
    review = human.waiting()[0]
    assert "paid 5 to bob" in review["binding_moment"]["question"]["stem"]
    human.answer(review, RUN)
    assert "paid 5 to bob" in crew.result()
    assert ledger.paid == [[5, "bob"]]


@needs["crewai"]
def test_a_review_that_is_withdrawn_accepts_nothing(human, start, ledger):
    from programs import crew_agent

    crew = start(lambda: crew_agent.go(human.name, uuid.uuid4().hex, "[]", ledger.path, review=True))
    with entente.Entente() as ada:
        ada.call(entente.operations.withdraw_moment(human.waiting()[0]["id"]))
    with pytest.raises(TimeoutError, match="withdrawn"):
        crew.result()


def test_the_types_hold():
    modules = CLIENT.glob("src/entente/integrations/*.py")
    here = [str(path) for path in modules if importlib.util.find_spec(PACKAGES.get(path.stem, "httpx"))]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={Path(sys.prefix) / 'mypy-cache'}", *here]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CLIENT, env=os.environ | {"MYPYPATH": str(CLIENT / "src")})
    assert done.returncode == 0, done.stdout
