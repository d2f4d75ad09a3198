# Agents as classes (RFC-0021, "SDK Integration"): assignments, messages with answers, channels; nothing is missed between two runs.

import asyncio
import contextlib
import threading
import time
import uuid

import httpx
import pytest
from entente import Agent, BaseAgent, Entente, MessageTimeoutError, NotFoundError, on_assignment, on_entry, on_message, operations
from proxy import Proxy
from server import AGENTS


class Seen(list):
    """What handlers were called with."""

    def wait(self, count):
        end = time.monotonic() + 40
        while len(self) < count:
            assert time.monotonic() < end, self
            time.sleep(0.02)
        return list(self)


@pytest.fixture
def new(server):
    """Makes an agent that no other test uses, and returns its name and its key."""

    def made(word):
        name = f"agent.{word}-{uuid.uuid4().hex[:6]}"
        with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.operator}) as admin:
            admin.post("/principals", json={"id": name, "kind": "agent"}).raise_for_status()
            return name, admin.post(f"/principals/{name}/keys", json={"label": "test"}).raise_for_status().json()["key"]

    return made


@pytest.fixture
def ada(url):
    with Entente(url, AGENTS["agent.ada"]) as client:
        yield client


@pytest.fixture
def intent(ada):
    return ada.create_intent("Research Q1 financials")


@contextlib.contextmanager
def running(made):
    """Runs an agent in a thread, and waits until its inbox is open."""
    thread = threading.Thread(target=made.run)
    thread.start()
    with Entente(*made._address, made.agent_id) as client:
        end = time.monotonic() + 40
        while time.monotonic() < end:
            with contextlib.suppress(NotFoundError):
                client.call(operations.get_inbox(made.agent_id))
                break
            time.sleep(0.02)
    try:
        yield made
    finally:
        made.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_the_example_of_the_rfc_runs(url, new, ada, intent):
    data, data_key = new("data")
    research, research_key = new("research")
    seen = Seen()

    @Agent(data)
    class DataAgent:
        @on_message(channel="data-clarification")
        async def handle_clarification(self, message):
            if message.message_type == "request":
                return {"answer": "v2.3", "confidence": 0.95}

        @on_message()
        async def handle_any(self, message):
            seen.append((message.sender, message.message_type, message.payload))

    @Agent(research)
    class ResearchAgent:
        @on_assignment
        async def handle(self, intent):
            channel = await self.channels.open("data-clarification", intent_id=intent.id)
            response = await channel.ask(data, {"question": "What schema version?"}, timeout=15)
            schema = response.payload["answer"]
            await channel.broadcast({"status": "starting analysis", "schema": schema})
            await channel.notify(data, {"phase": "research", "started": True})
            return {"schema": schema}

    ada.assign_agent(intent.id, data)
    with running(DataAgent(url, data_key)), running(ResearchAgent(url, research_key)):
        ada.assign_agent(intent.id, research)
        seen.wait(3)
    assert seen[0] == (research, "request", {"question": "What schema version?"})
    assert sorted(kind for _, kind, _ in seen) == ["broadcast", "notify", "request"]
    # What the handler of an assignment returns is set in the intent's state.
    assert ada.get_intent(intent.id).state == {"schema": "v2.3"}


def test_nothing_is_missed_between_two_runs(url, new, ada, intent):
    name, key = new("sleeper")
    seen = Seen()

    @Agent(name)
    class Sleeper:
        @on_assignment
        async def assigned(self, intent):
            seen.append(("assigned", intent.id))

        @on_message("talk")
        def told(self, message):  # a function that is not asynchronous
            seen.append(("told", message.payload["n"]))
            return {"heard": message.payload["n"]}

    # Assigned before the agent ran for the first time.
    ada.assign_agent(intent.id, name)
    talk = ada.channels.open("talk", intent.id)
    with running(Sleeper(url, key)):
        seen.wait(1)
        talk.notify(name, {"n": 1})
        seen.wait(2)
    other = ada.create_intent("Another goal")
    ada.assign_agent(other.id, name)
    talk.notify(name, {"n": 2})
    request = talk.send({"n": 3}, to=name, message_type="request")
    with running(Sleeper(url, key)):
        found = seen.wait(5)
        answers = talk.read(request.id, to="agent.ada", wait=10).value
    assert found[:2] == [("assigned", intent.id), ("told", 1)]
    assert sorted(found[2:]) == sorted([("assigned", other.id), ("told", 2), ("told", 3)])
    assert [one.payload for one in answers] == [{"heard": 3}]
    with running(Sleeper(url, key)):
        talk.notify(name, {"n": 4})
        seen.wait(6)
    assert seen[5:] == [("told", 4)]


def test_an_agent_that_dies_in_the_middle_answers_once(url, new, ada, intent):
    name, key = new("mortal")
    seen = Seen()

    @Agent(name)
    class Mortal(BaseAgent):
        fails = True

        @on_message()
        async def told(self, message):
            seen.append(message.payload["n"])
            if type(self).fails:
                await asyncio.sleep(60)
            return {"n": message.payload["n"]}

    # The inbox opens with the first run.
    with running(Mortal(url, key)):
        pass
    talk = ada.channels.open("talk", intent.id)
    ada.assign_agent(intent.id, name)
    with running(Mortal(url, key, grace=0.1)):
        request = talk.send({"n": 1}, to=name, message_type="request")
        seen.wait(1)
    Mortal.fails = False
    with running(Mortal(url, key)):
        seen.wait(2)
        assert [one.payload for one in talk.read(request.id, to="agent.ada", wait=10).value] == [{"n": 1}]
    assert seen == [1, 1]


def test_an_answer_that_could_not_be_marked_is_sent_once(url, new, ada, intent, caplog):
    name, key = new("forgetful")
    seen = Seen()

    @Agent(name)
    class Forgetful:
        @on_message()
        async def told(self, message):
            seen.append(message.id)
            return {"time": len(seen)}

    ada.assign_agent(intent.id, name)
    talk = ada.channels.open("talk", intent.id)
    with running(Forgetful(url, key)):
        pass
    proxy = Proxy(url)
    proxy.answer(f"POST /api/v1/agents/{name}/inbox/seen", 503, 1_000_000)
    with running(Forgetful(proxy.url, key, grace=0.1)):
        request = talk.send({}, to=name, message_type="request")
        assert talk.read(request.id, wait=20).value[0].payload == {"time": 1}
    proxy.close()
    with running(Forgetful(url, key)):
        seen.wait(2)
    assert [one.payload for one in talk.messages() if one.message_type == "response"] == [{"time": 1}]
    with running(Forgetful(url, key)):
        talk.notify(name, {})
        seen.wait(3)
    # The second answer is another one, and the first stands: that is no fault.
    assert "idempotency_mismatch" not in caplog.text


def test_an_assignment_of_the_first_run_that_was_cut_off_comes_again(url, new, ada, intent):
    name, key = new("starter")
    seen, told = Seen(), Seen()

    @Agent(name)
    class Starter:
        @on_assignment
        async def assigned(self, intent):
            seen.append(intent.id)
            if len(seen) == 1:
                await asyncio.sleep(60)

        @on_message()
        async def told(self, message):
            told.append(message.id)

    ada.assign_agent(intent.id, name)
    talk = ada.channels.open("talk", intent.id)
    with running(Starter(url, key, grace=0.1)):
        seen.wait(1)
        talk.notify(name, {})
        told.wait(1)
    with running(Starter(url, key)):
        seen.wait(2)
        # What is not marked because of it comes again, too.
        told.wait(2)
    assert seen == [intent.id] * 2


def test_handlers_hear_the_rest_of_the_inbox_and_errors_stop_nothing(url, new, ada, intent):
    name, key = new("clumsy")
    seen = Seen()

    @Agent(name, role_id=f"role-{name[6:]}")
    class Clumsy:
        def __init__(self):
            self.greeting = "hello"

        @on_message()
        async def told(self, message):
            if message.payload.get("n") == 1:
                raise ValueError("clumsy")
            seen.append((self.greeting, message.payload["n"]))

        @on_entry("mail")
        async def mail(self, entry):
            seen.append((entry.kind, entry.sender))

    ada.assign_agent(intent.id, name)
    talk = ada.channels.open("talk", intent.id)
    with running(Clumsy(url, key)):
        talk.notify(name, {"n": 1})
        talk.notify(f"role:role-{name[6:]}", {"n": 2})
        ada.mailbox().send(name, "data.rows.counted", {"rows": 3})
        found = seen.wait(2)
    assert sorted(found) == [("hello", 2), ("mail", "agent.ada")]
    with pytest.raises(MessageTimeoutError):
        talk.ask(name, {"n": 3}, timeout=1)


def test_an_answer_that_is_no_json_keeps_back_nothing_behind_it(url, new, ada, intent):
    name, key = new("odd")
    seen = Seen()

    @Agent(name)
    class Odd:
        @on_message()
        async def told(self, message):
            seen.append(message.payload["n"])
            return {"at": object()} if message.payload["n"] == 1 else {"n": message.payload["n"]}

    talk = ada.channels.open("talk", intent.id)
    ada.assign_agent(intent.id, name)
    with running(Odd(url, key)):
        talk.send({"n": 1}, to=name, message_type="request")
        assert talk.ask(name, {"n": 2}, timeout=15).payload == {"n": 2}
    with running(Odd(url, key)):
        assert talk.ask(name, {"n": 3}, timeout=15).payload == {"n": 3}
    assert seen == [1, 2, 3], "what was handled does not come again"


def test_agents_that_share_a_key_answer_the_same_question(url, server, ada, intent):
    names = [f"agent.twin-{uuid.uuid4().hex[:6]}" for _ in range(2)]
    made = [Agent(name, role_id="role-twins")(type("Twin", (), {"told": on_message()(lambda self, message: {"by": self.agent_id})})) for name in names]
    for name in names:
        ada.assign_agent(intent.id, name)
    talk = ada.channels.open("talk", intent.id)
    with running(made[0](url, server.operator)), running(made[1](url, server.operator)):
        answers = talk.ask_all("role:role-twins", {"n": 1}, timeout=15, expect=2)
    assert sorted(one.payload["by"] for one in answers) == sorted(names)
