# Calls of tools are put to a person, in every framework alike: what they decide is what happens, once, and a killed program does not ask
# again.

import importlib
import importlib.util
import json
import re
import uuid

import entente
import pytest
from human import LEAVE, RUN, ended

# Each framework's program, and the package that it needs.
PROGRAMS = {
    "langchain_agent": "langchain",
    "pydantic_agent": "pydantic_ai",
    "openai_agent": "agents",
    "microsoft_agent": "agent_framework",
    "autogen_agent": "autogen_agentchat",
    "crew_agent": "crewai",
    "claude_agent": "claude_agent_sdk",
}


@pytest.fixture(params=[name for name, package in PROGRAMS.items() if importlib.util.find_spec(package)])
def program(request):
    return request.param


@pytest.fixture
def go(program, human, ledger, start):
    """Starts the framework's agent in this process."""

    def started(*calls, run=None):
        run = run or uuid.uuid4().hex
        return start(lambda: importlib.import_module(f"programs.{program}").go(human.name, run, json.dumps(calls), ledger.path))

    return started


BOB, EVE = {"amount": 5, "to": "bob"}, {"amount": 7, "to": "eve"}


def test_an_approved_call_runs(go, human, ledger):
    agent = go(BOB)
    question = human.waiting()[0]
    shown = question["binding_moment"]
    assert re.fullmatch(r'Should (mcp__bank__)?pay run with {"amount": 5, "to": "bob"}\?', shown["question"]["stem"])
    assert {"amount: 5", "to: bob"} <= set(shown["findings"])
    assert ledger.paid == []
    human.answer(question, RUN)
    assert agent.result() == "paid 5 to bob"
    assert ledger.paid == [[5, "bob"]]
    assert [one["acknowledged_at"] is not None for one in human.asked()] == [True]


def test_a_rejected_call_does_not_run(go, human, ledger):
    agent = go(BOB)
    human.answer(human.waiting()[0], LEAVE)
    assert f"{human.name} said no" in agent.result()
    assert ledger.paid == []


def test_arguments_are_edited(go, human, ledger):
    agent = go(BOB)
    human.say(human.waiting()[0], '{"amount": 4}')
    agent.result()
    assert ledger.paid == [[4, "bob"]]


@pytest.mark.parametrize("words", ["Ask me tomorrow.", '"yes"', "[1]", "true", "Run it"])
def test_words_run_nothing_and_reach_the_model(go, human, ledger, words):
    agent = go(BOB)
    human.say(human.waiting()[0], words)
    assert words in agent.result()
    assert ledger.paid == []


def test_a_refused_question_runs_nothing_and_is_not_asked_again(go, human, ledger):
    agent = go(BOB)
    human.refuse(human.waiting()[0], "Bob has left.")
    assert "Bob has left." in agent.result()
    # Until the objection is answered nothing is asked, neither this question nor another one.
    assert "did not run" in go(BOB).result()
    assert "Deliberate" in go(EVE).result()
    assert len(human.asked()) == 1
    assert ledger.paid == []


def test_a_withdrawn_question_runs_nothing(go, human, ledger):
    agent = go(BOB)
    with entente.Entente() as ada:
        ada.call(entente.operations.withdraw_moment(human.waiting()[0]["id"]))
    assert "withdrawn" in agent.result()
    assert ledger.paid == []


# Claude's program asks about one call after the other.
ONE_BY_ONE = {"claude_agent"}


def test_two_calls_at_once_are_two_questions(go, human, ledger, program):
    agent = go(BOB, EVE)
    for count in (1, 1) if program in ONE_BY_ONE else (2, 1):
        one = human.waiting(count)[-1]
        human.answer(one, RUN if "bob" in one["binding_moment"]["question"]["stem"] else LEAVE)
    found = agent.result()
    assert "paid 5 to bob" in found and "said no" in found
    assert ledger.paid == [[5, "bob"]]


def test_two_equal_calls_need_two_answers(go, human, ledger):
    agent = go(BOB, BOB)
    first = human.waiting()[0]
    human.answer(first, RUN)
    second = human.waiting()[0]
    assert second["id"] != first["id"]
    human.answer(second, LEAVE)
    agent.result()
    assert len(ledger.paid) <= 1
    assert len(human.asked()) == 2


def test_a_killed_program_finds_its_question_again(program, spawn, human, ledger):
    run = uuid.uuid4().hex
    for _ in range(2):
        process = spawn(program, human.name, run, json.dumps([BOB]))
        question = human.waiting()[0]
        process.kill()
        process.wait()
    # This time the answer comes while nobody waits for it.
    human.answer(question, RUN)
    assert ended(spawn(program, human.name, run, json.dumps([BOB]))) == "paid 5 to bob"
    assert ledger.paid == [[5, "bob"]]
    assert len(human.asked()) == 1


def test_long_arguments_are_shown_in_full(go, human, ledger):
    name = "bob" + "ß" * 3000
    agent = go({"amount": 1, "to": name})
    question = human.waiting()[0]["binding_moment"]
    shown = [one.partition(": ")[2] for one in question["findings"] if one.startswith("to (")]
    assert "".join(shown) == name
    human.answer(human.waiting()[0], RUN)
    agent.result()
    assert ledger.paid == [[1, name]]
