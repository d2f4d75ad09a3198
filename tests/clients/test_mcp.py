# The Python SDK of MCP, unmodified: the handshake, the tools, refusals, and waiting.

import asyncio
import json

import httpx
import pytest
from conftest import AGENTS
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, PaginatedRequestParams

ADA = AGENTS["agent.ada"]
BOB = AGENTS["agent.bob"]


def talk(url: str, key: str, story):
    """Runs a scenario in a session with the server, and returns its result."""

    async def told():
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            hello = await session.initialize()
            return await story(session, hello)

    return asyncio.run(told())


def content(result) -> dict:
    """Returns a tool's structured result."""
    assert not result.isError, result.content
    return result.structuredContent


def test_a_session_begins_and_lists_the_tools(url):
    async def story(session, hello):
        assert hello.serverInfo.name == "entente"
        assert "wait_for_events" in hello.instructions
        return await session.list_tools()

    tools = {tool.name: tool for tool in talk(url, ADA, story).tools}
    assert {"whoami", "wait_for_events", "send_message"} <= set(tools)
    assert all(tool.inputSchema["additionalProperties"] is False and tool.outputSchema for tool in tools.values())
    assert tools["whoami"].annotations.readOnlyHint and tools["cancel_job"].annotations.destructiveHint


def test_an_agent_says_something_and_another_reads_it(url, goal):
    async def say(session, _):
        me = content(await session.call_tool("whoami", {}))
        assert me["agent"] == "agent.ada"
        opened = await session.call_tool("open_channel", {"intent_id": goal, "name": "mcp"})
        channel = content(opened)["id"]
        said = await session.call_tool("send_message", {"channel": channel, "payload": {"x": 1}})
        return channel, content(said)["id"]

    async def read(session, _):
        page = content(await session.call_tool("read_messages", {"channel": channel, "ack": True}))
        assert page["marked_read"] == 1
        return [message["id"] for message in page["messages"]]

    channel, message = talk(url, ADA, say)
    assert talk(url, BOB, read) == [message]


def test_a_refusal_is_read_by_the_model(url):
    async def story(session, _):
        return await session.call_tool("read_messages", {"channel": "chan_nobody"})

    result = talk(url, ADA, story)
    assert result.isError and result.content[0].text.startswith("not_found: ")
    assert result.meta["entente/problem"]["code"] == "not_found"


def test_waiting_hears_what_came_in_between(url, goal):
    async def begin(session, _):
        opened = await session.call_tool("open_channel", {"intent_id": goal, "name": "waiting"})
        begun = await session.call_tool("wait_for_events", {"timeout_s": 0})
        return content(opened)["id"], content(begun)["next"]

    async def say(session, _):
        await session.call_tool("send_message", {"channel": channel, "to": "agent.ada", "payload": {"n": 1}})

    async def wait(session, _):
        heard = content(await session.call_tool("wait_for_events", {"after": after, "kinds": ["messages"]}))
        return [event["message"]["payload"] for event in heard["events"] if event["channel_id"] == channel]

    channel, after = talk(url, ADA, begin)
    talk(url, BOB, say)
    assert talk(url, ADA, wait) == [{"n": 1}]


QUESTION = {
    "synopsis": "Ship 1.4 today.",
    "findings": ["CI is green.", "Two of three reviewers approved.", "No blocker is open."],
    "recommendations": ["Tag v1.4.", "Publish to the registry."],
    "offer": "Ask for detail on any item.",
    "question": {
        "stem": "When should release 1.4 ship?",
        "options": [
            {"label": "Ship now", "reasoning": "All checks pass."},
            {"label": "Wait a day", "reasoning": "The third reviewer is back tomorrow."},
        ],
        "recommended_idx": 0,
    },
}


def test_a_human_decides_elsewhere_and_the_agent_hears_of_it(url, grace):
    async def ask(session, _):
        [tool] = [tool for tool in (await session.list_tools()).tools if tool.name == "ask_principal"]
        assert tool.annotations.emits_binding_moment is True and tool.meta["emits_binding_moment"] is True
        return await session.call_tool("ask_principal", {"principal": "human.grace"} | QUESTION)

    async def hear(session, _):
        return content(await session.call_tool("check_decision", {"moment_id": moment["moment_id"], "wait_s": 20}))

    asked = talk(url, ADA, ask)
    moment = content(asked)
    slots = moment["binding_moment"]
    assert slots["question"]["hatches"] == {"free_text": True, "dialogue": True}
    # The member at the top level, as in the memo: this client keeps it.
    assert asked.model_extra["binding_moment"] == slots
    assert asked.content[0].text.startswith(f"DECISION NEEDED [{moment['moment_id']}]")
    answer = {"envelope_digest": moment["digest"], "resolution": {"kind": "option", "option_idx": 1}}
    grace.post(f"/moments/{moment['moment_id']}/resolution", json=answer).raise_for_status()
    heard = talk(url, ADA, hear)
    assert heard["resolution"]["label"] == "Wait a day" and heard["resolution"]["by"] == "human.grace"


def test_a_fresh_agent_begins(url, grace):
    """From a goal over a job to a decision, with a key and these tools only."""

    async def begin(session, _):
        assert content(await session.call_tool("whoami", {}))["time"].endswith("Z")
        intent = content(await session.call_tool("create_intent", {"title": "Check the backup"}))
        listed = content(await session.call_tool("list_intents", {"created_by": "agent.ada"}))
        assert intent["id"] in [one["id"] for one in listed["intents"]]
        content(await session.call_tool("claim_job", {"agents": ["mcp-checker"], "register": True}))
        job = content(await session.call_tool("submit_job", {"agent": "mcp-checker", "input": {"host": "db1"}}))
        held = content(await session.call_tool("claim_job", {"agents": ["mcp-checker"]}))["job"]
        assert held["job_id"] == job["job_id"] and held["input"] == {"host": "db1"}
        claim = {"job_id": held["job_id"], "claim_token": held["claim_token"]}
        content(await session.call_tool("finish_job", claim | {"result": {"ok": True}}))
        assert content(await session.call_tool("get_job", {"job_id": job["job_id"]}))["status"] == "success"
        people = content(await session.call_tool("list_people", {}))["people"]
        assert "human.grace" in [person["id"] for person in people]
        question = QUESTION | {"synopsis": "Keep the backup.", "intent_id": intent["id"]}
        asked = content(await session.call_tool("ask_principal", {"principal": "human.grace"} | question))
        decisions = content(await session.call_tool("list_decisions", {"intent_id": intent["id"]}))["decisions"]
        assert [one["moment_id"] for one in decisions] == [asked["moment_id"]]
        content(await session.call_tool("withdraw_decision", {"moment_id": asked["moment_id"]}))

    talk(url, ADA, begin)


def test_the_server_keeps_the_place_of_a_reader(url, goal):
    async def open_channel(session, _):
        return content(await session.call_tool("open_channel", {"intent_id": goal, "name": "cursors"}))["id"]

    async def say(session, _):
        await session.call_tool("send_message", {"channel": channel, "payload": {"n": n}})

    async def read(session, _):
        page = content(await session.call_tool("read_messages", {"channel": channel, "cursor": "c1"}))
        return [message["payload"]["n"] for message in page["messages"]], page["cursor"]

    channel = talk(url, ADA, open_channel)
    for n in (1, 2):
        talk(url, ADA, say)
        # Each read is a session of its own.
        assert talk(url, BOB, read) == ([n], f"c1.{n}")


def test_intents_and_channels_are_resources(url, goal):
    async def story(session, hello):
        assert hello.capabilities.resources.subscribe is None, "without a session there is nothing to follow"
        content(await session.call_tool("open_channel", {"intent_id": goal, "name": "resources"}))
        templates = (await session.list_resource_templates()).resourceTemplates
        assert [template.uriTemplate for template in templates] == ["entente://intents/{id}", "entente://channels/{id}"]
        listed, cursor = [], None
        while True:
            page = await session.list_resources(params=PaginatedRequestParams(cursor=cursor))
            listed += [str(resource.uri) for resource in page.resources]
            if not (cursor := page.nextCursor):
                break
        assert f"entente://intents/{goal}" in listed and any("entente://channels/chan_" in uri for uri in listed)
        [contents] = (await session.read_resource(f"entente://intents/{goal}")).contents
        with pytest.raises(McpError) as missing:
            await session.read_resource("entente://intents/intent_x")
        assert missing.value.error.code == -32002
        return contents

    contents = talk(url, ADA, story)
    assert contents.mimeType == "application/json" and json.loads(contents.text)["id"] == goal


def test_a_job_is_a_task(url):
    async def story(session, hello):
        assert hello.capabilities.tasks.requests.tools.call is not None
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert tools["submit_job"].execution.taskSupport == "optional" and tools["whoami"].execution is None
        content(await session.call_tool("claim_job", {"agents": ["mcp-tasks"], "register": True}))
        begun = await session.experimental.call_tool_as_task("submit_job", {"agent": "mcp-tasks"})
        id = begun.task.taskId
        assert (await session.experimental.get_task(id)).status == "working"
        assert id in [task.taskId for task in (await session.experimental.list_tasks()).tasks]
        held = content(await session.call_tool("claim_job", {"agents": ["mcp-tasks"]}))["job"]
        claim = {"job_id": held["job_id"], "claim_token": held["claim_token"]}
        content(await session.call_tool("finish_job", claim | {"result": {"ok": True}}))
        async for status in session.experimental.poll_task(id):
            assert status.status == "completed"
        over = content(await session.experimental.get_task_result(id, CallToolResult))
        assert over["job_id"] == id and over["terminal"]["result"] == {"ok": True}
        other = await session.experimental.call_tool_as_task("submit_job", {"agent": "mcp-tasks"})
        assert (await session.experimental.cancel_task(other.task.taskId)).status == "cancelled"

    talk(url, ADA, story)


def leaves(fault: BaseException) -> list[BaseException]:
    """Returns the single errors of a group: tasks that belong together fail together."""
    parts = fault.exceptions if isinstance(fault, BaseExceptionGroup) else ()
    return [leaf for part in parts for leaf in leaves(part)] or [fault]


def test_without_a_key_nobody_gets_in(url):
    answer = httpx.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert answer.status_code == 401 and answer.json()["code"] == "unauthenticated"

    async def story(session, _):
        return await session.list_tools()

    assert talk(url, ADA, story).tools
    with pytest.raises(BaseExceptionGroup) as refused:
        talk(url, "wrong", story)
    assert [(type(leaf), leaf.response.status_code) for leaf in leaves(refused.value)] == [(httpx.HTTPStatusError, 401)]
