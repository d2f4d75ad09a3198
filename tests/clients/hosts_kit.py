# LLM hosts of npm, unmodified, with a model on loopback that says what a test wants: Claude Code and Codex.

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from conftest import PROGRAM, environment

MODULES = Path(__file__).parent / "hosts" / "node_modules"
CLAUDE = ["node", str(MODULES / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs")]
CODEX = ["node", str(MODULES / "@openai" / "codex" / "bin" / "codex.js")]

# Seconds that a host may take for one turn.
TURN_LIMIT = 120


def strings(value) -> list[str]:
    """Returns all texts in a JSON value."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in strings(part)]


class Model:
    """A model's server, in the protocols of both hosts. It keeps the requests, and answers each with what `says` returns:
    a text, or the name and arguments of a tool to call."""

    def __init__(self):
        self.lock = threading.Lock()
        # The texts of each request, by the session of the host.
        self.heard: list[tuple[str, list[str]]] = []
        self.says = lambda request: "Done."
        # Requests to anything but the model: a host that calls elsewhere.
        self.strayed: list[str] = []

    def sessions(self) -> dict[str, list[str]]:
        """Returns the texts of the longest request of each session: it has the whole conversation."""
        longest: dict[str, list[str]] = {}
        for session, texts in self.heard:
            if sum(map(len, texts)) >= sum(map(len, longest.get(session, []))):
                longest[session] = texts
        return longest

    def answer(self, path: str, session: str, request: dict) -> bytes:
        with self.lock:
            self.heard.append((session, strings(request.get("messages") or request.get("input"))))
        said = self.says(request)
        events = anthropic(said) if "messages" in path else openai(said)
        frames = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events]
        return "".join(frames).encode()


def anthropic(said) -> list[tuple[str, dict]]:
    """Returns a streamed answer of Anthropic's Messages API."""
    if isinstance(said, str):
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": said}
        reason = "end_turn"
    else:
        name, arguments = said
        block = {"type": "tool_use", "id": f"toolu_{os.urandom(8).hex()}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        reason = "tool_use"
    message = {
        "id": f"msg_{os.urandom(8).hex()}", "type": "message", "role": "assistant", "model": "stub", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ]


def openai(said) -> list[tuple[str, dict]]:
    """Returns a streamed answer of OpenAI's Responses API."""
    if isinstance(said, str):
        content = [{"type": "output_text", "text": said, "annotations": []}]
        item = {"type": "message", "id": f"msg_{os.urandom(8).hex()}", "role": "assistant", "content": content}
    else:
        name, arguments = said
        call = f"call_{os.urandom(8).hex()}"
        item = {"type": "function_call", "id": f"fc_{call}", "call_id": call, "arguments": json.dumps(arguments)}
        item |= dict(zip(("namespace", "name"), name)) if isinstance(name, tuple) else {"name": name}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{os.urandom(8).hex()}", "output": [item], "usage": usage}
    return [
        ("response.created", {"response": {"id": response["id"], "output": []}}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    ]


@contextlib.contextmanager
def modelling():
    """Runs a model's server and yields it with its URL; it is also the proxy of everything else, which it refuses."""
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def speak(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            status, content, kind = 404, b"{}", "application/json"
            if self.command == "POST" and path in ("/v1/messages", "/v1/responses"):
                request = json.loads(body)
                session = self.headers.get("x-claude-code-session-id") or request.get("prompt_cache_key") or ""
                status, content, kind = 200, model.answer(path, session, request), "text/event-stream"
            elif self.command == "CONNECT" or "://" in self.path:
                model.strayed.append(f"{self.command} {self.path}")
                status = 403
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        do_GET = do_POST = do_HEAD = do_CONNECT = speak

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # A host that ends breaks its connections.
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Host:
    """A host with a home of its own, attached to a server as an agent."""

    def __init__(self, name: str, home: Path, url: str, key: str, model: str):
        self.name, self.home = name, home
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
        ours = {name: value for name, value in environment().items() if not name.startswith(("ENTENTE_", "XDG_", "CLAUDE"))}
        ours |= {"HOME": str(home), "PATH": path, "ENTENTE_URL": url, "ENTENTE_API_KEY": key}
        # Whatever does not go to loopback goes to the proxy, which refuses it.
        ours |= {"HTTPS_PROXY": model, "HTTP_PROXY": model, "ALL_PROXY": model, "NO_PROXY": "127.0.0.1,localhost"}
        if name == "claude":
            ours |= {"ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "stub", "DISABLE_AUTOUPDATER": "1"}
            ours |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
            ours |= {"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1", "DISABLE_ERROR_REPORTING": "1"}
        else:
            ours |= {"STUB_KEY": "stub"}
            (home / ".codex").mkdir()
            (home / ".codex" / "config.toml").write_text(CONFIG.format(model=model))
        self.environment = ours

    def attach(self, *arguments: str) -> str:
        command = ["entente", "attach", *arguments]
        return subprocess.run(command, env=self.environment, text=True, capture_output=True, check=True).stdout

    def command(self, prompt: str, resumed: str = "", *more: str) -> list[str]:
        if self.name == "claude":
            resume = ["--resume", resumed] if resumed else []
            return [*CLAUDE, "-p", prompt, "--output-format", "json", *resume, *more]
        # Nobody reviews hooks in a test.
        flags = ["--skip-git-repo-check", "--json", "--dangerously-bypass-hook-trust", *more]
        return [*CODEX, "exec", *(["resume", *flags, resumed] if resumed else flags), prompt]

    def turn(self, prompt: str, resumed: str = "", *more: str) -> str:
        """Runs one turn without a person, and returns the session's id."""
        done = subprocess.run(
            self.command(prompt, resumed, *more), env=self.environment, cwd=self.folder, text=True,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=TURN_LIMIT,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        if self.name == "claude":
            result = json.loads(done.stdout)
            assert not result["is_error"], result
            return result["session_id"]
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return next(event["thread_id"] for event in events if event["type"] == "thread.started")


CONFIG = """\
model = "stub"
model_provider = "stub"
check_for_update_on_startup = false

[model_providers.stub]
name = "stub"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "STUB_KEY"

[analytics]
enabled = false

[features]
apps = false
plugins = false
remote_plugin = false
"""


class Terminal:
    """A host in a terminal, as a person runs it."""

    def __init__(self, host: Host):
        state = host.home / ".claude.json"
        kept = json.loads(state.read_text()) if state.exists() else {}
        # What a person has answered when the program was new.
        kept |= {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": ["stub"], "rejected": []}}
        kept |= {"projects": {str(host.folder): {"hasTrustDialogAccepted": True}}}
        state.write_text(json.dumps(kept))
        self.output = b""
        self.pid, self.pipe = pty.fork()
        if self.pid == 0:
            os.chdir(host.folder)
            os.execvpe(CLAUDE[0], CLAUDE, host.environment | {"TERM": "xterm-256color"})
        fcntl.ioctl(self.pipe, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        with contextlib.suppress(OSError):
            while block := os.read(self.pipe, 65536):
                self.output += block

    def text(self) -> str:
        return re.sub(rb"\x1b\[[0-9;?<>]*[a-zA-Z]|\x1b\][^\x07]*\x07", b"", self.output).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self.pipe, text.encode())

    def end(self) -> None:
        """Ends the program as a person does, or by force, and waits for it."""
        end = time.monotonic() + 20
        with contextlib.suppress(OSError):
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > end:
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)
                    raise AssertionError(f"the host does not end: {self.text()[-2000:]}")
                self.type("\x03")
                time.sleep(0.3)
