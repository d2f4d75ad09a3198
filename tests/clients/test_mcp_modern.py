# The clients of MCP on PyPI that know 2026-07-28, unmodified, in the virtualenv of scripts/setup.sh: version 2 of the SDK, and
# FastMCP with its companion for tasks.

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import AGENTS

HERE = Path(__file__).parent / "mcp"
PYTHON = Path(__file__).parents[2] / ".venv" / "mcp" / "bin" / "python"
ADA = AGENTS["agent.ada"]


def run(url: str, script: str, *arguments: str):
    environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": ADA}
    command = [PYTHON, HERE / script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_sdk_calls_tools_and_follows_a_resource(url, goal, mode, version):
    channel = {"intent_id": goal, "name": f"sdk {mode}"}
    steps = [
        ["list_tools", {}],
        ["call_tool", {"name": "whoami", "arguments": {}}],
        ["call_tool", {"name": "read_messages", "arguments": {"channel": "chan_nobody"}}],
        ["read_resource", {"uri": f"entente://intents/{goal}"}],
    ]
    if mode == "auto":
        follow = {"uri": f"entente://intents/{goal}", "tool": "open_channel", "arguments": channel}
        steps.append(["listen", follow])
    hello, tools, me, refused, read, *followed = run(url, "sdk2.py", mode, json.dumps(steps))
    assert (hello["server"]["name"], hello["version"]) == ("entente", version)
    assert "whoami" in hello["instructions"]
    assert "wait_for_events" in [tool["name"] for tool in tools["tools"]]
    assert me["structuredContent"]["agent"] == "agent.ada"
    assert refused["isError"] and refused["content"][0]["text"].startswith("not_found: ")
    assert json.loads(read["contents"][0]["text"])["id"] == goal
    if mode == "auto":
        [event] = followed
        uri = f"entente://intents/{goal}"
        assert event == {"uri": uri, "event": "ResourceUpdated", "honored": {"resourceSubscriptions": [uri]}}


def test_fastmcp_runs_a_job_as_a_task(url):
    seen = run(url, "fast.py")
    assert "wait_for_events" in seen["tools"] and seen["me"]["agent"] == "agent.ada"
    assert seen["refused"]["is"] and seen["refused"]["text"].startswith("not_found: ")
    assert seen["begun"]["id"].startswith("job_") and seen["begun"]["status"] == "working"
    assert seen["over"]["job_id"] == seen["begun"]["id"] and seen["over"]["terminal"]["result"] == {"ok": True}
    assert seen["cancelled"] == "cancelled"
