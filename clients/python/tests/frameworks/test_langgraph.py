# LangGraph: interrupts of a graph's own, and the checkpointer, which passes LangGraph's own tests for checkpointers.

import asyncio
import operator
import os
import uuid
from typing import Annotated, TypedDict

import pytest
from human import LEAVE, RUN

pytest.importorskip("langgraph")

from entente import ConflictError, EntenteError  # noqa: E402
from entente.integrations.langgraph import EntenteSaver, ainvoke, invoke  # noqa: E402
from langgraph.checkpoint.conformance import checkpointer_test, validate  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.types import interrupt  # noqa: E402


class State(TypedDict):
    said: Annotated[list, operator.add]


def thread():
    return {"configurable": {"thread_id": uuid.uuid4().hex}}


def asking(*questions, saver=None):
    """A graph with a node for each question; all of them run at once."""
    builder = StateGraph(State)
    for number, question in enumerate(questions):
        builder.add_node(f"n{number}", lambda state, question=question: {"said": [interrupt(question)]})
        builder.add_edge(START, f"n{number}")
    return builder.compile(checkpointer=saver or EntenteSaver())


def stem(moment):
    return moment["binding_moment"]["question"]["stem"]


def labels(moment):
    return [one["label"] for one in moment["binding_moment"]["question"]["options"]]


SLOTS = {
    "synopsis": "Publish it today.",
    "findings": ["It has no gaps."],
    "recommendations": ["Publish it."],
    "offer": "Ask for detail.",
    "question": {
        "stem": "When should it go out?",
        "recommended_idx": 0,
        "options": [{"label": "At noon", "reasoning": "Most look then."}, {"label": "At six", "reasoning": "It is checked then."}],
    },
}


@pytest.mark.parametrize(
    ("value", "shown", "told"),
    [
        ("Publish?", ("Publish?", ["Yes", "No"]), "No"),
        ({"question": "Which?", "options": ["a", "b", "c"], "rows": 7}, ("Which?", ["a", "b", "c"]), "b"),
        (SLOTS, ("When should it go out?", ["At noon", "At six"]), "At six"),
    ],
)
def test_a_question_gets_the_label_that_was_chosen(human, start, value, shown, told):
    run = start(lambda: invoke(asking(value), {"said": []}, thread(), person=human.name))
    question = human.waiting()[0]
    assert (stem(question), labels(question)) == shown
    human.answer(question, LEAVE)
    assert run.result() == {"said": [told]}


def test_words_objections_and_ends_are_told_apart(human, start):
    run = start(lambda: invoke(asking("Publish?"), {"said": []}, thread(), person=human.name))
    human.say(human.waiting()[0], "Tomorrow.")
    assert run.result() == {"said": ["Tomorrow."]}
    run = start(lambda: invoke(asking("Delete?"), {"said": []}, thread(), person=human.name))
    human.refuse(human.waiting()[0], "That is not yours.")
    assert run.result() == {"said": [{"refused": "That is not yours."}]}
    # Until the objection is answered, nothing is asked.
    with pytest.raises(ConflictError, match="deliberation_required"):
        invoke(asking("Delete more?"), {"said": []}, thread(), person=human.name)


def test_questions_of_one_step_are_asked_at_once(human, start):
    config, graph = thread(), asking("Red?", "Blue?")
    run = start(lambda: asyncio.run(ainvoke(graph, {"said": []}, config, person=human.name)))
    for question in human.waiting(2):
        human.answer(question, RUN if stem(question) == "Red?" else LEAVE)
    assert sorted(run.result()["said"]) == ["No", "Yes"]


def test_a_thread_goes_on_and_has_another_turn(human, start):
    config, graph = thread(), asking("Go on?")
    graph.invoke({"said": ["first"]}, config)
    # As another process would find it: the input of the first time is not taken again.
    run = start(lambda: invoke(asking("Go on?"), {"said": ["again"]}, config, person=human.name))
    human.answer(human.waiting()[0], RUN)
    assert run.result()["said"] == ["first", "Yes"]
    run = start(lambda: invoke(asking("Go on?"), {"said": ["second"]}, config, person=human.name))
    human.answer(human.waiting()[0], LEAVE)
    assert run.result()["said"] == ["first", "Yes", "second", "No"]
    assert len(human.asked()) == 2


def test_edited_arguments_that_do_not_fit_run_nothing(human, start, ledger):
    from programs import langchain_agent

    run = start(lambda: langchain_agent.go(human.name, uuid.uuid4().hex, '[{"amount": 5, "to": "bob"}]', ledger.path, mode="per_call"))
    human.say(human.waiting()[0], '{"amount": "much"}')
    assert "do not fit" in run.result()
    assert ledger.paid == []


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(("resolution", "paid"), [(RUN, [[5, "bob"]]), (LEAVE, [])])
def test_the_middleware_in_both_modes(human, start, ledger, mode, resolution, paid):
    from programs import langchain_agent

    run = start(lambda: langchain_agent.go(human.name, uuid.uuid4().hex, '[{"amount": 5, "to": "bob"}]', ledger.path, mode=mode))
    human.answer(human.waiting()[0], resolution)
    run.result()
    assert ledger.paid == paid


ONE = '[{"amount": 5, "to": "bob"}]'


# What a person decides need not be one of the decisions that the graph takes.
@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("allowed", "words", "paid"),
    [
        (["edit", "reject"], None, [[5, "bob"]]),
        (["respond"], None, []),
        (["approve", "respond"], '{"amount": 4}', []),
        (["approve", "edit", "respond"], '{"amount": "much"}', []),
        (["approve", "edit", "respond"], "no", []),
    ],
)
def test_a_decision_that_is_not_allowed_is_told_as_one_that_is(human, start, ledger, mode, allowed, words, paid):
    from programs import langchain_agent

    run = start(lambda: langchain_agent.go(human.name, uuid.uuid4().hex, ONE, ledger.path, mode=mode, allowed=allowed))
    question = human.waiting()[0]
    human.answer(question, RUN) if words is None else human.say(question, words)
    found = run.result()
    assert ledger.paid == paid
    # In its older mode the graph itself says what does not fit.
    assert paid or "did not run" in found or "valid integer" in found


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("resolution", [RUN, LEAVE])
def test_a_graph_that_takes_no_no_runs_nothing_and_its_thread_stays(human, start, ledger, mode, resolution):
    from programs import langchain_agent

    thread_id = uuid.uuid4().hex

    def go(*allowed):
        return start(lambda: langchain_agent.go(human.name, thread_id, ONE, ledger.path, mode=mode, allowed=allowed))

    run = go("approve")
    human.answer(human.waiting()[0], resolution)
    if resolution == RUN:
        run.result()
        assert ledger.paid == [[5, "bob"]]
        return
    for again in (run, go("approve")):
        with pytest.raises(EntenteError, match="said no.*allowed_decisions"):
            again.result()
    assert "said no" in go("approve", "reject").result()
    assert ledger.paid == []
    assert len(human.asked()) == 1


def test_decisions_are_read_from_the_schema_and_not_from_its_words():
    from entente.integrations.langgraph import _allowed
    from langchain.agents.middleware.human_in_the_loop import _decision_schema
    from langchain_core.tools import tool
    from pydantic import TypeAdapter

    @tool
    def reject(respond: str) -> str:
        """Sends something back."""
        return respond

    for allowed in (["approve"], ["edit"], ["approve", "edit"], ["approve", "edit", "reject", "respond"]):
        schema = TypeAdapter(_decision_schema(allowed, "reject", reject)).json_schema()
        assert _allowed(schema) == allowed


def test_the_checkpointer_passes_the_tests_of_langgraph():
    @checkpointer_test(name="EntenteSaver")
    async def saver():
        yield EntenteSaver()

    report = asyncio.run(validate(saver))
    assert report.passed_all_base(), [result.failures for result in report.results.values() if result.failures]


def walk(saver):
    """Returns the states of a thread with a branch, as a saver keeps them."""
    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"said": ["one"]})
    builder.add_node("two", lambda state: {"said": ["two"]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", END)
    inner = builder.compile()
    outer = StateGraph(State)
    outer.add_node("inner", inner)
    outer.add_node("after", lambda state: {"said": [f"after {len(state['said'])}"]})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "after")
    graph = outer.compile(checkpointer=saver)
    config = thread()
    graph.invoke({"said": []}, config)
    early = [one for one in graph.get_state_history(config) if one.next == ("after",)][0]
    graph.invoke(None, graph.update_state(early.config, {"said": ["changed"]}))
    states = [(one.values, one.next, one.metadata["step"], one.metadata["source"]) for one in graph.get_state_history(config)]
    limited = [one.next for one in graph.get_state_history(config, limit=2, before=early.config)]
    loops = [one.metadata["step"] for one in graph.get_state_history(config, filter={"source": "loop"})]
    return states, limited, loops, graph.get_state(config).values


def test_a_history_is_as_the_memory_of_langgraph_has_it():
    assert walk(EntenteSaver()) == walk(InMemorySaver())


def test_long_states_have_parts():
    noise = os.urandom(200_000).hex()
    builder = StateGraph(State)
    builder.add_node("long", lambda state: {"said": [noise]})
    builder.add_edge(START, "long")
    config = thread()
    builder.compile(checkpointer=EntenteSaver()).invoke({"said": []}, config)
    assert builder.compile(checkpointer=EntenteSaver()).get_state(config).values == {"said": [noise]}
    EntenteSaver().delete_thread(config["configurable"]["thread_id"])
    assert builder.compile(checkpointer=EntenteSaver()).get_state(config).values == {}


def test_work_that_was_done_in_a_broken_step_is_not_done_again():
    done = []

    def good(state):
        done.append("good")
        return {"said": ["good"]}

    def bad(state):
        done.append("bad")
        if done.count("bad") == 1:
            raise RuntimeError("it breaks once")
        return {"said": ["bad"]}

    builder = StateGraph(State)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    config = thread()
    with pytest.raises(RuntimeError):
        builder.compile(checkpointer=EntenteSaver()).invoke({"said": []}, config)
    found = invoke(builder.compile(checkpointer=EntenteSaver()), {"said": []}, config, person="human.nobody")
    assert sorted(found["said"]) == ["bad", "good"]
    assert done.count("good") == 1 and done.count("bad") == 2
