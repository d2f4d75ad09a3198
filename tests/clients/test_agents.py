# The directory of agents through the SDK (RFC-0016, OI-9): registration, records, heartbeats, status, leaving.

import uuid

import pytest
from kit import recent, refused
from openintent import AgentCapacity, AgentStatus, ConflictError, HeartbeatConfig, NotFoundError, OpenIntentError


@pytest.fixture
def name() -> str:
    """An unused agent id."""
    return f"agent.{uuid.uuid4().hex}"


@pytest.fixture
def agent(connect, name):
    """A client that acts as that agent."""
    return connect(name)


def test_an_agent_is_what_it_said(agent, name):
    made = agent.register_agent(
        name,
        ["search", "ocr"],
        name="A name",
        role_id="researcher",
        capacity={"max_concurrent_tasks": 3},
        endpoint="http://127.0.0.1:1/agent",
        heartbeat_config={"interval_seconds": 10, "unhealthy_after_seconds": 30, "dead_after_seconds": 90},
        metadata={"made": {"by": "test"}},
        drain_timeout_seconds=60,
    )
    assert (made.agent_id, made.status, made.version) == (name, AgentStatus.ACTIVE, 1)
    assert (made.capabilities, made.name, made.role_id) == (["search", "ocr"], "A name", "researcher")
    assert made.capacity == AgentCapacity(max_concurrent_tasks=3)
    assert made.heartbeat_config == HeartbeatConfig(10, 30, 90)
    assert (made.endpoint, made.drain_timeout_seconds) == ("http://127.0.0.1:1/agent", 60)
    assert made.metadata == {"made": {"by": "test"}}
    assert recent(made.registered_at) and made.last_heartbeat_at is None
    assert agent.get_agent_record(name) == made


def test_an_agent_registers_again(agent, name):
    agent.register_agent(name, ["old"])
    again = agent.register_agent(name, ["new"], role_id="writer")
    assert (again.capabilities, again.role_id, again.version) == (["new"], "writer", 2)
    assert agent.get_agent_record(name) == again


def test_an_agent_belongs_to_who_registered_it(ada, connect):
    ada.register_agent("agent.ada")
    other = connect("agent.ada", key="dev-user-key")
    with refused(ConflictError, 409, "already_registered"):
        other.register_agent("agent.ada")


def test_nobody_registers_another(ada, name):
    with refused(OpenIntentError, 403, "may_not_act_as"):
        ada.register_agent(name)
    with refused(NotFoundError, 404, "not_found"):
        ada.get_agent_record(name)


def test_a_heartbeat_that_contradicts_itself_is_refused(agent, name):
    with refused(OpenIntentError, 422, "unprocessable"):
        agent.register_agent(name, heartbeat_config={"unhealthy_after_seconds": 90, "dead_after_seconds": 30})


def test_agents_are_listed(agent, name, connect):
    role, other = uuid.uuid4().hex, f"{name}.2"
    first = agent.register_agent(name, role_id=role)
    second = connect(other).register_agent(other, role_id=role)
    assert agent.list_agents(role_id=role) == [first, second]
    agent.update_agent_status(other, "draining")
    assert [found.agent_id for found in agent.list_agents(status="draining", role_id=role)] == [other]
    assert agent.list_agents(status="active", role_id=role) == [first]
    assert name in [found.agent_id for found in agent.list_agents()]
    with refused(OpenIntentError, 422, "invalid_parameter"):
        agent.list_agents(status="banana")


def test_a_heartbeat_is_heard(agent, name):
    agent.register_agent(name)
    heard = agent.agent_heartbeat(name, current_load=2, tasks_in_progress=["t1"])
    # Members of the reference server's answer, and those that RFC-0016 requires.
    assert (heard["status"], heard["acknowledged"], heard["agent_status"]) == ("ok", True, "active")
    assert heard["pending_commands"] == []
    assert heard["next_heartbeat_at"] > heard["server_timestamp"]
    assert recent(agent.get_agent_record(name).last_heartbeat_at)


def test_a_heartbeat_needs_a_heart(agent, ada, name):
    with refused(NotFoundError, 404, "not_found"):
        agent.agent_heartbeat(name)
    agent.register_agent(name)
    with refused(OpenIntentError, 403, "may_not_act_as"):
        ada.agent_heartbeat(name)
    agent.update_agent_status(name, "deregistered")
    with refused(OpenIntentError, 410, "gone"):
        agent.agent_heartbeat(name)


def test_a_status_is_changed(agent, ada, name):
    agent.register_agent(name)
    changed = agent.update_agent_status(name, "draining")
    assert (changed["agent_id"], changed["status"], changed["version"]) == (name, "draining", 2)
    assert agent.get_agent_record(name).status == AgentStatus.DRAINING
    with refused(OpenIntentError, 422, "invalid_request"):
        agent.update_agent_status(name, "banana")
    with refused(OpenIntentError, 403, "may_not_act_as"):
        ada.update_agent_status(name, "active")
    with refused(NotFoundError, 404, "not_found"):
        agent.update_agent_status(f"{name}.2", "active")


def test_an_agent_leaves_and_comes_back(agent, ada, name, intent):
    agent.register_agent(name)
    channel = ada.create_channel(intent.id, "members", ["agent.ada", name], "explicit")["id"]
    waiting = ada.send_message(channel, "agent.ada", name, "request")
    assert agent.update_agent_status(name, "deregistered")["status"] == "deregistered"
    assert agent.get_agent_record(name).status == AgentStatus.DEREGISTERED
    # The agent leaves its channels, and requests that only it could answer expire (RFC-0021 §7.2).
    assert ada.get_channel(channel)["members"] == ["agent.ada"]
    assert ada.get_message(channel, waiting["id"])["status"] == "expired"
    with refused(OpenIntentError, 410, "gone"):
        agent.update_agent_status(name, "active")
    assert agent.register_agent(name).status == AgentStatus.ACTIVE
