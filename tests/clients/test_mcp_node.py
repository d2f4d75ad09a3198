# The public clients of MCP from npm, unmodified, and the scenarios of its conformance tool that need no special tools.

import contextlib
import http.client
import json
import os
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import AGENTS
from test_mcp import QUESTION

HERE = Path(__file__).parent / "mcp"
MODULES = HERE / "node_modules"
ADA = AGENTS["agent.ada"]

# Scenarios of the conformance tool in a revision of MCP, or of an extension, that need no tools, prompts or resources made for
# it, or have checks of their own that need none. The others call tools such as `greet` and `slow_compute`, or read resources at
# fixed addresses such as `test://static-text`: what a server has only if it was written for the tool.
SCENARIOS = [
    ("server-initialize", "2025-11-25"),
    ("server-initialize", "2025-06-18"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("resources-list", "2025-11-25"),
    ("resources-list", "2026-07-28"),
    ("sep-2164-resource-not-found", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("input-required-result-unsupported-methods", "2026-07-28"),
    ("server-sse-multiple-streams", "2026-07-28"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("dns-rebinding-protection", "2026-07-28"),
    ("tasks-capability-negotiation", None),
    ("tasks-dispatch-and-envelope", None),
    ("tasks-request-headers", None),
]

# Checks that need tools made for them, or features that this server does not offer.
ELSEWHERE = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    "caching": {"sep-2549-prompts-list-caching-hints"},
    # The tools `greet`, `slow_compute` and `failing_job`.
    "tasks-capability-negotiation": {"sep-2663-server-rejects-undeclared-client", "tasks-per-request-meta-opt-in"},
    "tasks-dispatch-and-envelope": {
        "tasks-server-directed-creation-no-hint",
        "sep-2663-legacy-task-param-ignored",
        "tasks-immediate-result-shortcut",
        "tasks-result-type-complete-on-non-task-responses",
        "sep-2663-durable-create-strong-consistency",
    },
    "tasks-request-headers": {
        "tasks-headers-tolerate-mcp-method-on-tools-call",
        "sep-2663-routing-headers-accepted-on-tasks-get",
        "sep-2663-server-rejects-mismatched-mcp-name-on-tasks-get",
    },
}


@pytest.fixture(scope="session")
def modules() -> Path:
    """The packages of package-lock.json."""
    stamp = MODULES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)
    return MODULES


def node(script: str, url: str, *arguments: str):
    """Runs a script and returns what it prints, with the Node.js of the packages: the machine's own may be too old."""
    environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": ADA}
    command = [MODULES / ".bin" / "node", HERE / script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def drive(script: str, url: str, steps: list) -> list:
    """Runs a client's steps and returns their results."""
    return node(script, url, json.dumps(steps))


@pytest.mark.parametrize("script", ["sdk.mjs", "client.mjs"])
def test_a_client_of_npm_calls_tools(modules, url, goal, grace, script):
    channel = {"intent_id": goal, "name": script}
    question = {"principal": "human.grace"} | QUESTION
    steps = [
        ["listTools", {}],
        ["callTool", {"name": "whoami", "arguments": {}}],
        ["callTool", {"name": "open_channel", "arguments": channel}],
        ["callTool", {"name": "read_messages", "arguments": {"channel": "chan_nobody"}}],
        ["callTool", {"name": "ask_principal", "arguments": question}],
    ]
    hello, tools, me, opened, refused, asked = drive(script, url, steps)
    assert hello["server"]["name"] == "entente" and "whoami" in hello["instructions"]
    assert "wait_for_events" in [tool["name"] for tool in tools["tools"]]
    # The clients validate the structured result against the tool's listed schema.
    assert me["structuredContent"]["agent"] == "agent.ada"
    assert opened["structuredContent"]["name"] == script
    assert refused["isError"] and refused["content"][0]["text"].startswith("not_found: ")
    # Both keep the member at the top level; they drop unknown annotations of tools, so `_meta` has it too.
    moment = asked["structuredContent"]
    assert asked["binding_moment"] == moment["binding_moment"]
    [ask] = [tool for tool in tools["tools"] if tool["name"] == "ask_principal"]
    assert ask["_meta"]["emits_binding_moment"] is True
    # Withdrawn, because the next client asks the same question again.
    drive(script, url, [["callTool", {"name": "withdraw_decision", "arguments": {"moment_id": moment["moment_id"]}}]])


def test_a_client_of_npm_follows_a_resource(modules, url, goal):
    uri = f"entente://intents/{goal}"
    channel = {"intent_id": goal, "name": "followed"}
    told = node("listen.mjs", url, uri, "open_channel", json.dumps(channel))
    assert told == {"honored": {"resourceSubscriptions": [uri]}, "uri": uri, "version": "2026-07-28"}


# Version 2 of the client has no tasks in any era, version 1 those of 2025-11-25; FastMCP has the extension of 2026-07-28
# (test_mcp_modern.py).
def test_a_client_of_npm_calls_a_tool_as_a_task(modules, url):
    begun, *statuses, over = node("tasks.mjs", url)
    assert (begun["type"], begun["task"]["status"]) == ("taskCreated", "working")
    assert statuses and {message["type"] for message in statuses} == {"taskStatus"}
    assert over["type"] == "result" and over["result"]["structuredContent"]["terminal"]["result"] == {"ok": True}
    assert over["result"]["structuredContent"]["job_id"] == begun["task"]["taskId"]


class Keyring(BaseHTTPRequestHandler):
    """A proxy that adds a key, for which the conformance tool has no option, and passes requests on unchanged
    otherwise."""

    protocol_version = "HTTP/1.1"

    def pass_on(self):
        to = http.client.HTTPConnection(self.server.target, timeout=30)
        to.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            to.putheader(name, value)
        to.putheader("Authorization", f"Bearer {ADA}")
        to.endheaders(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        answer = to.getresponse()
        streams = (answer.getheader("Content-Type") or "").startswith("text/event-stream")
        body = b"" if streams else answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if streams:
            # Passed on as it comes, until one side ends it.
            self.send_header("Connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):
                while part := answer.read1(65_536):
                    self.wfile.write(part)
                    self.wfile.flush()
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        to.close()

    do_GET = do_POST = do_DELETE = do_OPTIONS = pass_on

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def keyring(url: str):
    """The server's URL for clients without a key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Keyring) as server:
        server.target = urlsplit(url).netloc
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_a_public_scenario_passes(modules, url, scenario, version):
    tool = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    program = modules / ".bin" / "node"
    with keyring(url) as open_url:
        command = [program, tool, "server", "--url", open_url, "--scenario", scenario]
        command += ["--spec-version", version] if version else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=modules.parent)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    failed = set(re.findall(r"\[(\S+)\s*\] FAILURE", said))
    assert re.search(r"\] SUCCESS", said), said + done.stderr
    assert failed == ELSEWHERE.get(scenario, set()), said + done.stderr
    assert done.returncode == (1 if failed else 0), said + done.stderr
