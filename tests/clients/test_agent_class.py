# The SDK's agents: the events that @Agent handles (OI-11.5), and its methods for channels, access and delegation.
# Defects of the SDK that no server can fix are left out: OI-16.2.

import asyncio
import threading
import uuid

import pytest
from conftest import AGENTS, SERVICE
from kit import Inbox, answer_the_next_request, eventually, open_sdk, refused
from openintent import (
    AccessPolicy,
    Agent,
    BaseAgent,
    EventType,
    IntentStatus,
    OpenIntentError,
    on_assignment,
    on_complete,
    on_handoff,
    on_lease_available,
    on_state_change,
)


@pytest.fixture
def flavour():
    """Agents use the asynchronous client by themselves; the tests check their effects with the synchronous one."""
    return "sync"


@pytest.fixture
def ada_agent(url):
    """An agent that does not run: its parts are used one by one, in one event loop as in a running agent."""

    @Agent("agent.ada")
    class Ada:
        # The decorator omits this method.
        channels = BaseAgent.channels

    agent = Ada(url, AGENTS["agent.ada"])
    loop = asyncio.new_event_loop()
    yield agent, loop.run_until_complete
    loop.run_until_complete(agent.async_client.close())
    loop.close()


def test_a_channel_is_opened_by_name_and_found_again(ada, ada_agent, intent):
    agent, do = ada_agent
    first = do(agent.channels.open("talk", intent.id, ["agent.bob"], "explicit", {"audit": True}))
    again = do(agent.channels.open("talk", intent.id))
    assert (first.name, first.intent_id, again.channel_id) == ("talk", intent.id, first.channel_id)
    [channel] = ada.list_channels(intent.id)
    told = [channel[member] for member in ("id", "created_by", "members", "member_policy", "options")]
    assert told[:2] == [first.channel_id, "agent.ada"]
    assert "agent.bob" in told[2]
    assert told[3:] == ["explicit", {"audit": True}]


def test_a_channel_that_was_closed_is_opened_anew(ada, ada_agent, intent):
    agent, do = ada_agent
    first = do(agent.channels.open("talk", intent.id))
    ada.close_channel(first.channel_id)
    assert do(agent.channels.open("talk", intent.id)).channel_id != first.channel_id


def test_a_channel_speaks(bob, ada_agent, intent):
    agent, do = ada_agent
    channel = do(agent.channels.open("talk", intent.id))
    notice = do(channel.notify("agent.bob", {"n": 1}))
    told = do(channel.broadcast({"n": 2}))
    assert (notice["message_type"], notice["to"], notice["sender"]) == ("notify", "agent.bob", "agent.ada")
    assert (told["message_type"], told["to"]) == ("broadcast", "*")
    answering = answer_the_next_request(bob, channel.channel_id, "agent.bob", {"a": 1})
    assert do(channel.ask("agent.bob", {"q": 1}, timeout=10))["payload"] == {"a": 1}
    answering.join()
    with pytest.raises(TimeoutError):
        do(channel.ask("agent.bob", {"q": 2}, timeout=1))


def test_a_channel_that_is_closed_to_one_cannot_be_opened(connect, ada_agent):
    agent, do = ada_agent
    bobs = connect("agent.bob").create_intent("closed")
    connect("agent.bob").set_acl(bobs.id, AccessPolicy.CLOSED)
    with refused(OpenIntentError, 403, "access_closed"):
        do(agent.channels.open("talk", bobs.id))


def test_access_is_lent(bob, ada, ada_agent, intent):
    agent, do = ada_agent
    ada.set_acl(intent.id, AccessPolicy.CLOSED)

    async def lend():
        async with agent.temp_access(intent.id, "agent.bob", "write", "for a moment") as entry:
            assert (entry.principal_id, entry.reason) == ("agent.bob", "for a moment")
            assert bob.update_state(intent.id, 1, {"by": "bob"}).version == 2

    do(lend())
    with refused(OpenIntentError, 403, "access_closed"):
        bob.get_intent(intent.id)


def test_an_agent_writes_into_state_and_log(ada, ada_agent, intent):
    agent, do = ada_agent
    do(agent.patch_state(intent.id, {"a": 1}))
    do(agent.log(intent.id, "a word", n=1))
    assert ada.get_intent(intent.id).state.to_dict() == {"a": 1}
    assert ada.get_events(intent.id)[0].payload == {"message": "a word", "n": 1}


class Running:
    """An agent that runs in a thread."""

    def __init__(self, url: str, agent):
        self._agent = agent
        self.operator = open_sdk("sync", url, SERVICE, "agent.operator")
        # Its own `run` recurses infinitely (OI-16.2).
        self._thread = threading.Thread(target=BaseAgent.run, args=(agent,), daemon=True)

    def _nudge(self) -> str:
        intent = self.operator.create_intent("nudge").id
        self.operator.assign_agent(intent, self._agent.agent_id)
        return intent

    def __enter__(self):
        self._thread.start()
        eventually(lambda: self._nudge() and self._agent.awake.is_set(), "the agent's first assignment")
        return self

    def __exit__(self, *_):
        self._agent.stop()
        # It checks for the stop only when the next event arrives.
        eventually(lambda: self._nudge() and not self._thread.is_alive(), "the end of the agent")
        self.operator.end()


def test_an_agent_acts_on_what_concerns_it(url, connect, caplog):
    name = f"agent.{uuid.uuid4().hex}"

    @Agent(name)
    class Worker:
        def __init__(self):
            self.awake, self.inbox = threading.Event(), Inbox()

        @on_assignment
        async def work(self, intent):
            self.awake.set()
            if intent.title == "work":
                return {"result": intent.description.upper(), "delegated": intent.ctx.delegated_by is not None}

        @on_handoff
        async def take(self, intent, giver):
            self.inbox.put(Event("handoff", intent.id, giver))

        @on_state_change(["result"])
        async def watch(self, intent, old_state, new_state):
            self.inbox.put(Event("state", intent.id, (old_state, new_state)))

        @on_complete
        async def end(self, intent):
            self.inbox.put(Event("complete", intent.id, intent.status))

    agent = Worker(url, SERVICE)
    with Running(url, agent) as running:
        operator = running.operator
        intent = operator.create_intent("work", "the task", initial_state={"before": 1})
        operator.assign_agent(intent.id, name)
        change = agent.inbox.next("state")
        assert change.intent_id == intent.id
        result = {"before": 1, "result": "THE TASK", "delegated": False}
        assert change.what == ({"before": 1}, result)
        found = operator.get_intent(intent.id)
        assert (found.state.to_dict(), found.version) == (result, 2)
        operator.set_status(intent.id, 2, IntentStatus.COMPLETED)
        operator.log_event(intent.id, EventType.COMMENT)
        ended = agent.inbox.next_of_any()
        # An assignment by an agent that is not assigned itself is no handoff.
        assert (ended.type, ended.intent_id, ended.what) == ("complete", intent.id, IntentStatus.COMPLETED)
    # The agents of the SDK fail on every other event, with an error in their log (OI-11.5.3).
    assert "Error handling event" not in caplog.text


def test_an_agent_that_starts_late_is_told_its_work(url, connect, ada, ada_agent):
    operator = connect("agent.operator")
    delegating, do = ada_agent
    name = f"agent.{uuid.uuid4().hex}"

    @Agent(name)
    class Late:
        def __init__(self):
            self.awake, self.inbox = threading.Event(), Inbox()

        @on_assignment
        async def work(self, intent):
            self.awake.set()
            self.inbox.put(Event("assignment", intent.id, intent.title))

        @on_handoff
        async def take(self, intent, giver):
            self.inbox.put(Event("handoff", intent.id, giver))

    given, over, handed = (operator.create_intent(title).id for title in ("given", "over", "handed"))
    for intent in (given, over):
        operator.assign_agent(intent, name)
    operator.set_status(over, 1, IntentStatus.COMPLETED)
    ada.assign_agent(handed)
    do(delegating.delegate(handed, name))
    agent = Late(url, SERVICE)
    with Running(url, agent):
        first, second = agent.inbox.next_of_any(), agent.inbox.next_of_any()
        assert (first.type, first.intent_id) == ("assignment", given)
        assert (second.type, second.intent_id, second.what) == ("handoff", handed, "agent.ada")


def test_an_agent_is_handed_anothers_work(url, ada, ada_agent, intent):
    delegating, do = ada_agent
    ada.assign_agent(intent.id)
    name = f"agent.{uuid.uuid4().hex}"

    @Agent(name)
    class Heir:
        def __init__(self):
            self.awake, self.inbox = threading.Event(), Inbox()

        @on_assignment
        async def begin(self, intent):
            self.awake.set()
            self.inbox.put(Event("assignment", intent.id, None))

        @on_handoff
        async def take(self, intent, giver):
            self.inbox.put(Event("handoff", intent.id, giver))
            return {"taken_from": giver}

    agent = Heir(url, SERVICE)
    with Running(url, agent):
        do(delegating.delegate(intent.id, name, {"hint": 1}))
        handoff = agent.inbox.next("handoff")
        assert (handoff.intent_id, handoff.what) == (intent.id, "agent.ada")
        eventually(lambda: ada.get_intent(intent.id).state.get("taken_from") == "agent.ada", "the heir's patch")


def test_an_agent_hears_that_a_scope_is_free(url, ada, intent):
    name = f"agent.{uuid.uuid4().hex}"

    @Agent(name)
    class Waiting:
        def __init__(self):
            self.awake, self.inbox = threading.Event(), Inbox()

        @on_assignment
        async def begin(self, intent):
            self.awake.set()

        @on_lease_available("research")
        async def take(self, intent, scope):
            self.inbox.put(Event("free", intent.id, scope))

    agent = Waiting(url, SERVICE)
    with Running(url, agent) as running:
        for scope in ("synthesis", "research"):
            running.operator.assign_agent(intent.id, name)
            lease = ada.acquire_lease(intent.id, scope)
            ada.release_lease(intent.id, lease.id)
        free = agent.inbox.next("free")
        assert (free.intent_id, free.what) == (intent.id, "research")
        # Expiry ends a lease in the same way as its holder does.
        ada.acquire_lease(intent.id, "research", 1)
        assert agent.inbox.next("free").intent_id == intent.id


class Event:
    """The event that an agent under test handles."""

    def __init__(self, kind: str, intent_id: str, what):
        self.type, self.intent_id, self.what = kind, intent_id, what
