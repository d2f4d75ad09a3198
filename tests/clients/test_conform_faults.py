# `entente conform` against servers that are wrong in ways which a lenient judge overlooks, or that try to get at its keys: the real
# server behind a proxy that alters what passes, and small servers that say one wrong thing.

import contextlib
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from conform_kit import ADA, BOB, OURS
from conftest import PROGRAM
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

# Longer than the part of an answer that was printed of it once.
KEY = "0123456789abcdef"


class Asked:
    """A request, as a small server sees it."""

    def __init__(self, handler):
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("content-length", 0)))


@contextlib.contextmanager
def answering(answer):
    """Runs a server that answers each request with the status, the media type and the parts of a body that `answer` says.

    Yields its URL and the requests that came."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            one = Asked(self)
            asked.append(one)
            status, media, parts = answer(one)
            # The client may have seen enough.
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-type", media)
                self.end_headers()
                for part in parts:
                    self.wfile.write(part)

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def told(value, status: int = 200):
    """Returns an answer of JSON."""
    return status, "application/json", [json.dumps(value).encode()]


@contextlib.contextmanager
def altering(url: str, alter):
    """Runs a proxy before the server; `alter` gets a request, the status and the body of its answer, and returns both."""
    kept = ("x-api-key", "x-agent-id", "authorization", "content-type", "if-match")

    def answer(one: Asked):
        headers = {name: one.headers[name] for name in kept if name in one.headers}
        came = httpx.request(one.method, f"{url}{one.path}", headers=headers, content=one.body, timeout=30)
        status, body = alter(one, came.status_code, came.json() if came.content else None)
        return told(body, status)

    with answering(answer) as (proxy, _):
        yield proxy


def conform(url: str, protocol: str, *words: str, keys=(ADA, BOB)):
    """Runs the kit, and returns the exit status, what it printed, and the checks by their names."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENTENTE_")}
    keys = dict(zip(("ENTENTE_API_KEY", "ENTENTE_SECOND_KEY"), keys))
    words = [PROGRAM, "conform", url, f"--protocol={protocol}", "--json", *words]
    done = subprocess.run(words, env=kept | keys, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def results(checks) -> dict[str, str]:
    return {name: check["result"] for name, check in checks.items()}


# A2A: the card names the place that is called.


def card(url: str) -> dict:
    skill = {"id": "echo", "name": "Echo", "description": "Echoes.", "tags": ["echo"]}
    return {
        "name": "echo", "description": "Echoes.", "version": "1", "capabilities": {}, "skills": [skill],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }


@contextlib.contextmanager
def led_elsewhere(form: str):
    """Runs a server whose card leads to another one; yields its URL, the card's URL, and the requests of both."""
    nothing = told({"jsonrpc": "2.0", "id": 1, "result": {}})
    led = []
    with answering(lambda _: nothing) as (other, strayed), answering(
        lambda one: told(card(led[0])) if one.path.endswith("agent-card.json") else nothing
    ) as (url, asked):
        led.append(form.format(own=url.removeprefix("http://"), other=other.removeprefix("http://")))
        yield url, led[0], asked, strayed


# The second one begins with the URL of the server under test; the last one is it, under another name.
ELSEWHERE = ["http://{other}/rpc", "http://{own}@{other}/rpc", "https://{own}/rpc"]


@pytest.mark.parametrize("form", ELSEWHERE)
def test_a_key_stays_with_its_server(form):
    with led_elsewhere(form) as (url, card_url, asked, strayed):
        done, checks = conform(url, "a2a", "--tier=must")
    assert strayed == []
    assert {one.method for one in asked} == {"GET"}
    skipped = [check for check in checks.values() if check["result"] == "skipped"]
    assert len(skipped) > 20 and all(card_url in check["reason"] for check in skipped), skipped
    assert done.returncode == 0 and checks["interfaces_have_bindings"]["result"] == "passed", done.stderr


def test_an_interface_is_looked_for_on_the_server_where_that_is_said():
    with led_elsewhere(ELSEWHERE[0]) as (url, card_url, asked, strayed):
        _, checks = conform(url, "a2a", "--rebase", "--only=unknown_method_fails")
    assert strayed == []
    called = [one for one in asked if one.method == "POST"]
    assert [(one.path, one.headers["authorization"]) for one in called] == [("/rpc", f"Bearer {ADA}")]
    assert any(card_url in line for line in checks["unknown_method_fails"]["record"])


@pytest.mark.parametrize("wrong", ["/rpc", "://", "http://"])
def test_an_interface_has_an_absolute_url(wrong):
    with answering(lambda _: told(card(wrong))) as (url, _):
        _, checks = conform(url, "a2a", "--only=interfaces_have_bindings")
    assert results(checks) == {"interfaces_have_bindings": "failed"}


# OpenIntent: what counts as a refusal, and as its absence.

REFUSED = ["channel_name_is_unique", "payload_is_an_object", "message_type_is_an_enum", "closed_takes_nothing", "sender_is_oneself"]
ONLY = [f"--only={name}" for name in REFUSED]


@pytest.mark.parametrize("status, result", [(422, "passed"), (401, "failed"), (405, "failed"), (408, "failed"), (429, "skipped")])
def test_only_some_statuses_refuse(url, status, result):
    alter = lambda _, came, body: (status if 400 <= came < 500 else came, body)
    with altering(url, alter) as proxy:
        done, checks = conform(proxy, "openintent", *OURS, *ONLY, "--timeout=20")
    assert results(checks) == dict.fromkeys(REFUSED, result)
    assert done.returncode == (0 if result == "passed" else 1), done.stderr


def test_who_refuses_everything_refuses_nothing(url):
    alter = lambda one, came, body: (400, {}) if one.path.endswith("/messages") else (came, body)
    only = ["payload_is_an_object", "message_type_is_an_enum", "outsider_cannot_send", "request_needs_an_address"]
    with altering(url, alter) as proxy:
        done, checks = conform(proxy, "openintent", *OURS, *(f"--only={name}" for name in only), "--timeout=20")
    assert results(checks) == dict.fromkeys(only, "skipped")
    assert done.returncode == 1 and "passes no check of openintent" in done.stderr


def test_a_run_in_which_nothing_passes_fails():
    with answering(lambda _: told({}, 404)) as (url, _):
        done, checks = conform(url, "openintent", "--only=key_is_needed", "--only=departure_leaves_channels", keys=())
    assert set(results(checks).values()) == {"skipped"}
    assert done.returncode == 1 and "passes no check of openintent: all 2 are skipped" in done.stderr


@pytest.mark.parametrize("protocol", ["openintent", "aee", "mcp"])
def test_a_limit_of_requests_is_no_fault(protocol):
    limited = told({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "later"}}, 429)
    with answering(lambda _: limited) as (url, _):
        done, checks = conform(url, protocol)
    assert set(results(checks).values()) == {"skipped"}
    assert done.returncode == 1


def test_what_was_never_listed_cannot_expire(url):
    alter = lambda one, came, body: (came, [] if one.method == "GET" and "/messages" in one.path else body)
    with altering(url, alter) as proxy:
        _, checks = conform(proxy, "openintent", *OURS, "--only=expired_is_not_delivered", "--timeout=20")
    assert results(checks) == {"expired_is_not_delivered": "failed"}


def test_an_event_of_any_form_is_one(url):
    sent = []

    def alter(one, came, body):
        if one.method == "POST" and one.path.endswith("/messages"):
            sent.append({"event_type": "message", "payload": {}})
        is_list = one.method == "GET" and one.path.endswith("/events")
        if is_list:
            (body["events"] if isinstance(body, dict) else body).extend(sent)
        return came, body

    with altering(url, alter) as proxy:
        _, checks = conform(proxy, "openintent", *OURS, "--only=no_audit_no_event", "--timeout=20")
    assert results(checks) == {"no_audit_no_event": "failed"}


# ARCP: a token that is refused, and a connection that ends.


def relay(url: str, ended: list[str]):
    """Returns a proxy's handler, which ends a connection without a word where a token is used a second time."""
    used = set()

    def pass_on(client):
        with connect(f"{url.replace('http', 'ws', 1)}/arcp") as server:

            def back():
                with contextlib.suppress(ConnectionClosed):
                    for frame in server:
                        client.send(frame)

            threading.Thread(target=back, daemon=True).start()
            for frame in client:
                resume = json.loads(frame)["payload"].get("resume") or {}
                if resume.get("resume_token") in used:
                    ended.append(resume["session_id"])
                    return
                if resume:
                    used.add(resume["resume_token"])
                server.send(frame)

    return pass_on


def test_a_connection_that_ends_refuses_no_token(url):
    ended = []
    with serve(relay(url, ended), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        proxy = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        _, checks = conform(proxy, "arcp", "--only=used_token_is_worthless", "--only=session_is_resumed", "--timeout=20")
        server.shutdown()
    assert len(ended) == 1
    assert results(checks) == {"used_token_is_worthless": "failed", "session_is_resumed": "passed"}


# Streams.


@contextlib.contextmanager
def streaming(parts):
    """Runs a server with one intent, one channel and one message, whose stream has these parts."""

    def answer(one: Asked):
        if "subscribe" in one.path:
            return 200, "text/event-stream", parts
        return told({"id": "ü🦀"}, 201)

    with answering(answer) as (url, _):
        yield conform(url, "openintent", "--only=pushed_over_sse", "--timeout=10")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_stream_may_be_cut_anywhere(end):
    data = json.dumps({"id": "ü🦀", "payload": {"n": 7}}, ensure_ascii=False)
    lines = [": a comment", "", "event: channel_message", f"data: {data}", "", ""]
    stream = end.join(lines).encode()
    with streaming([stream[at : at + 1] for at in range(len(stream))]) as (done, checks):
        assert results(checks) == {"pushed_over_sse": "passed"}, done.stdout


def test_an_event_without_an_end_is_cut():
    with streaming(b"data: " + b"x" * 100_000 for _ in range(1_000)) as (_, checks):
        assert "bounded" in checks["pushed_over_sse"]["expected"]


# Keys in what is printed.


@pytest.mark.parametrize("at", [1480, 1490, 1495])
def test_a_key_is_taken_out_before_a_text_is_cut(at):
    with answering(lambda _: (500, "text/plain", [b"x" * at + KEY.encode() + b"x" * 100])) as (url, _):
        done, checks = conform(url, "openintent", "--only=channel_object", keys=(KEY, f"{KEY}-and-more"))
    assert results(checks) == {"channel_object": "failed"}
    assert KEY[:4] not in done.stdout and "-and-more" not in done.stdout
