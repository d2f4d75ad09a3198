# The public clients of MCP from npm, unmodified, and the scenarios of its conformance tool that need no tools of their own.

import contextlib
import http.client
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import AGENTS

HERE = Path(__file__).parent / "mcp"
MODULES = HERE / "node_modules"
ADA = AGENTS["agent.ada"]

# What the conformance tool checks without tools, prompts or resources made for it.
SCENARIOS = [
    ("server-initialize", "2025-11-25"),
    ("server-initialize", "2025-06-18"),
    ("ping", "2025-11-25"),
    ("tools-list", "2025-11-25"),
    ("tools-list", "2026-07-28"),
    ("server-stateless", "2026-07-28"),
    ("http-header-validation", "2026-07-28"),
    ("caching", "2026-07-28"),
    ("dns-rebinding-protection", "2025-11-25"),
    ("dns-rebinding-protection", "2026-07-28"),
]


@pytest.fixture(scope="session")
def modules() -> Path:
    """The packages, as package-lock.json has them."""
    stamp = MODULES / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < (HERE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=HERE, check=True, capture_output=True)
    return MODULES


def drive(script: str, url: str, steps: list) -> list:
    """What came of each step that a client took."""
    environment = os.environ | {"ENTENTE_URL": url, "ENTENTE_API_KEY": ADA}
    command = ["node", HERE / script, json.dumps(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("script", ["sdk.mjs", "client.mjs"])
def test_a_client_of_npm_calls_tools(modules, url, intent, script):
    channel = {"intent_id": intent.id, "name": script}
    steps = [
        ["listTools", {}],
        ["callTool", {"name": "whoami", "arguments": {}}],
        ["callTool", {"name": "open_channel", "arguments": channel}],
        ["callTool", {"name": "read_messages", "arguments": {"channel": "chan_nobody"}}],
    ]
    hello, tools, me, opened, refused = drive(script, url, steps)
    assert hello["server"]["name"] == "entente" and "whoami" in hello["instructions"]
    assert "wait_for_events" in [tool["name"] for tool in tools["tools"]]
    # The clients hold what programs are told against the schema that the tool was listed with.
    assert me["structuredContent"]["agent"] == "agent.ada"
    assert opened["structuredContent"]["name"] == script
    assert refused["isError"] and refused["content"][0]["text"].startswith("not_found: ")


class Keyring(BaseHTTPRequestHandler):
    """Passes requests on with a key, which the conformance tool has no place for; otherwise as they are."""

    protocol_version = "HTTP/1.1"

    def pass_on(self):
        to = http.client.HTTPConnection(self.server.target, timeout=30)
        to.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            to.putheader(name, value)
        to.putheader("Authorization", f"Bearer {ADA}")
        to.endheaders(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        answer = to.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        to.close()

    do_GET = do_POST = do_DELETE = do_OPTIONS = pass_on

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def keyring(url: str):
    """The URL of the server for those who have no key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Keyring) as server:
        server.target = urlsplit(url).netloc
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.mark.parametrize(("scenario", "version"), SCENARIOS)
def test_a_public_scenario_passes(modules, url, scenario, version):
    tool = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = modules / ".bin" / "node"
    with keyring(url) as open_url:
        command = [node, tool, "server", "--url", open_url, "--scenario", scenario, "--spec-version", version]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=modules.parent)
    assert done.returncode == 0, done.stdout + done.stderr
