# An Envoy, a real one in front of an upstream on this machine, that asks Entente about each request (`ext_authz`): with
# examples/envoy.yaml as it is, which also settles, and with the filter alone, where the upstream settles.

import contextlib
import functools
import gzip
import http.client
import json
import os
import re
import shlex
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from conftest import OPERATORS, PROGRAM, SERVICE, environment, serving
from kit import PATIENCE, eventually

ROOT = Path(__file__).parents[2]
ENVOY = ROOT / ".venv" / "envoy" / "bin" / "envoy"
EXAMPLE = (ROOT / "examples" / "envoy.yaml").read_text()
PROVIDERS_KEY = "sk-of-the-provider"

pytestmark = pytest.mark.skipif(not ENVOY.exists(), reason="no package has Envoy for this platform")

# The filter alone: whatever is asked reserves ten cents, and the upstream gets the reservation to settle.
ALONE = """
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: 10000 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: alone
          route_config:
            virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: model } }] }]
          http_filters:
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              allowed_headers: { patterns: [{ exact: x-api-key }] }
              http_service:
                server_uri: { uri: "http://127.0.0.1:8080", cluster: entente, timeout: 10s }
                path_prefix: /api/v1/ext-authz
                authorization_request:
                  headers_to_add: [{ key: x-entente-reserve, value: USD=0.1 }, { key: x-entente-model, value: any }]
                authorization_response:
                  allowed_upstream_headers: { patterns: [{ exact: x-entente-reservation }] }
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: entente
    load_assignment:
      cluster_name: entente
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8080 } } } }] }]
  - name: model
    load_assignment:
      cluster_name: model
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9000 } } } }] }]
"""

# Where Envoy says on which ports it listens.
ADMIN = "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }"

CALL = {"model": "gpt-5-mini", "max_tokens": 100, "messages": [{"role": "user", "content": "Say something short, please."}]}
STREAMED = CALL | {"stream": True, "stream_options": {"include_usage": True}}
# What the example says of this model, for a token, and what the upstream says of its answers.
GIVEN, TAKEN = Decimal("0.25") / 10**6, Decimal(2) / 10**6
USAGE = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
COST = 12 * GIVEN + 34 * TAKEN


class Upstream(BaseHTTPRequestHandler):
    """A model's server, which remembers what it was asked."""

    protocol_version = "HTTP/1.1"
    asked = []
    # Answers wait for it, and streams in their midst.
    go = threading.Event()

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append((self.requestline.rpartition(" ")[0], {name.lower(): value for name, value in self.headers.items()}, body))
        call = json.loads(body) if body.startswith(b"{") else {}
        if call.get("stream"):
            self.stream(call)
            return
        self.go.wait(3 * PATIENCE)
        if call.get("user") == "unlucky":
            self.send(500, {"error": {"message": "not today"}})
        else:
            told = {"role": "assistant", "content": 'Not a usage: "completion_tokens": 9999.'}
            self.send(200, {"choices": [{"index": 0, "message": told}], "usage": USAGE})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def send(self, status: int, told: dict):
        content = json.dumps(told).encode()
        self.send_response(status)
        if "gzip" in self.headers.get("accept-encoding", ""):
            content = gzip.compress(content)
            self.send_header("content-encoding", "gzip")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            # Some do not wait for it.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(content)

    def stream(self, call: dict):
        """Sends events, of which the last one has the usage if that was asked for."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = [{"choices": [{"delta": {"content": word}}], "usage": None} for word in ("One", " more", ".")]
        if call.get("stream_options", {}).get("include_usage"):
            events.append({"choices": [], "usage": USAGE})
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        # It halts in the midst of a number.
        cut = text.find('4, "total_tokens"') % len(text)
        with contextlib.suppress(ConnectionError):
            for piece in (text[:cut], text[cut:], ""):
                self.wfile.write(f"{len(piece):x}\r\n{piece}\r\n".encode())
                self.go.wait(3 * PATIENCE)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


@pytest.fixture(scope="module")
def model():
    """The port of the upstream."""
    server = Server(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def upstream():
    """The upstream, which was not asked yet and answers at once."""
    Upstream.asked.clear()
    Upstream.go.set()
    yield Upstream
    Upstream.go.set()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextlib.contextmanager
def envoy(place: Path, config: str, key: str, **ports: int):
    """Runs Envoy with a configuration in which only the ports are others, and yields the URL of its listener."""
    for ours, port in {"10000": 0, "8080": ports["entente"], "9000": ports["model"]}.items():
        assert config.count(f"port_value: {ours} ") == 1
        config = config.replace(f"port_value: {ours} ", f"port_value: {port} ")
    (place / "envoy.yaml").write_text(config)
    command = [ENVOY, "-c", place / "envoy.yaml", "--config-yaml", ADMIN, "--admin-address-path", place / "admin"]
    command += ["--disable-hot-restart", "--concurrency", "2", "--log-level", "error"]
    keys = {"ENTENTE_API_KEY": key, "MODEL_API_KEY": PROVIDERS_KEY}
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, env={"PATH": os.environ["PATH"]} | keys, stdout=log, stderr=subprocess.STDOUT)
    try:

        def listens():
            assert process.poll() is None, (place / "log").read_text()
            with contextlib.suppress(httpx.TransportError, FileNotFoundError, IndexError):
                admin = f"http://{(place / 'admin').read_text()}"
                if httpx.get(f"{admin}/ready").status_code == 200:
                    [listener] = httpx.get(f"{admin}/listeners?format=json").json()["listener_statuses"]
                    return listener["local_address"]["socket_address"]["port_value"]
            return None

        yield f"http://127.0.0.1:{eventually(listens, 'a listener of Envoy')}"
        # Settlements that fail, and errors of the script, are logged.
        assert (place / "log").read_text() == ""
    finally:
        process.terminate()
        process.wait(30)


@functools.cache
def gateways_key(url: str) -> str:
    """The key that the commands at the top of the example make."""
    settings = environment() | {"ENTENTE_URL": url, "ENTENTE_API_KEY": OPERATORS[url]}
    said = ""
    for line in re.findall(r"^#   entente (.*)$", EXAMPLE, re.M):
        said += subprocess.run([PROGRAM, *shlex.split(line)], env=settings, capture_output=True, text=True, check=True).stdout
    return re.search(r"ent_\w+", said)[0]


@pytest.fixture(scope="module")
def gate(url, model, tmp_path_factory):
    """The gateway of the example."""
    with envoy(tmp_path_factory.mktemp("envoy"), EXAMPLE, gateways_key(url), entente=port_of(url), model=model) as gate:
        yield gate


@pytest.fixture(scope="module")
def alone(url, model, tmp_path_factory):
    """A gateway that only asks."""
    with envoy(tmp_path_factory.mktemp("envoy"), ALONE, "", entente=port_of(url), model=model) as gate:
        yield gate


class Payer:
    """An agent with a key, and a budget that pays for its calls."""

    def __init__(self, url: str, limit: str):
        self.admin = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": OPERATORS[url]}, timeout=30)
        self.name = f"agent.{uuid4().hex[:12]}"
        self.admin.post("/principals", json={"id": self.name, "kind": "agent"}).raise_for_status()
        made = self.admin.post(f"/principals/{self.name}/keys", json={"scopes": ["tools:use"]})
        self.key = made.raise_for_status().json()["key"]
        made = self.admin.post("/budgets", json={"scope": f"principal:{self.name}", "unit": "USD", "limit": limit})
        self.budget = made.raise_for_status().json()["id"]

    def usage(self) -> tuple[Decimal, Decimal]:
        """What is spent, and what is reserved."""
        usage = self.admin.get(f"/budgets/{self.budget}").raise_for_status().json()["usage"]
        return Decimal(str(usage["spent"])), Decimal(str(usage["reserved"]))


@pytest.fixture
def payer(url):
    return Payer(url, "1")


def call(gate: str, key: str, said: dict = CALL, **headers: str) -> httpx.Response:
    """Calls the model as a client of OpenAI does."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"} | headers
    return httpx.post(f"{gate}/v1/chat/completions", content=written(said), headers=headers, timeout=30)


def written(said: dict) -> bytes:
    return json.dumps(said).encode()


def most(said: dict) -> Decimal:
    """The most that a call can cost."""
    return len(written(said)) * GIVEN + said["max_tokens"] * said.get("n", 1) * TAKEN


def refused(answer: httpx.Response, status: int, code: str) -> dict:
    """Requires Entente's own refusal, and that the upstream was not asked."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    assert answer.json()["code"] == code, answer.text
    assert Upstream.asked == []
    return answer.json()


def test_a_call_is_reserved_before_and_settled_after(gate, payer, upstream):
    upstream.go.clear()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, gate, payer.key)
        eventually(lambda: upstream.asked, "the call")
        assert payer.usage() == (0, most(CALL))
        upstream.go.set()
    assert (answer.result().status_code, answer.result().json()["usage"]) == (200, USAGE)
    assert payer.usage() == (COST, 0)
    [(path, headers, body)] = upstream.asked
    assert (path, body) == ("POST /v1/chat/completions", written(CALL))
    assert headers["authorization"] == f"Bearer {PROVIDERS_KEY}"
    assert payer.key not in str(headers) and not [name for name in headers if name.startswith("x-entente")]
    assert "x-entente-reservation" not in answer.result().headers


def test_the_costs_have_agent_and_model(gate, payer, upstream):
    assert call(gate, "", **{"Authorization": "", "X-API-Key": payer.key}).status_code == 200
    assert payer.usage() == (COST, 0)
    # A key that may act as others names one of them.
    assert call(gate, SERVICE, **{"X-Agent-ID": payer.name}).status_code == 200
    lines = payer.admin.get("/spend", params={"by": "agent,model"}).raise_for_status().json()["lines"]
    [mine] = [line for line in lines if line["agent_id"] == payer.name]
    assert (mine["model"], mine["count"], Decimal(str(mine["amount"]))) == ("gpt-5-mini", 2, 2 * COST)
    assert payer.key not in str(upstream.asked) and SERVICE not in str(upstream.asked)


def test_a_stream_costs_what_its_end_says(gate, payer, upstream):
    headers = {"Authorization": f"Bearer {payer.key}", "Content-Type": "application/json; charset=utf-8"}
    upstream.go.clear()
    with httpx.stream("POST", f"{gate}/v1/chat/completions", content=written(STREAMED), headers=headers, timeout=30) as answer:
        lines = answer.iter_lines()
        assert "One" in next(lines)
        assert payer.usage() == (0, most(STREAMED)), "the rest comes later"
        upstream.go.set()
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert payer.usage() == (COST, 0)


def test_an_answer_without_usage_costs_what_was_reserved(gate, payer):
    said = CALL | {"stream": True, "n": 2}
    assert call(gate, payer.key, said).status_code == 200
    assert payer.usage() == (most(said), 0)


def test_a_call_that_fails_costs_nothing_and_is_not_repeated(gate, payer, upstream):
    repeat = {"x-envoy-retry-on": "5xx", "x-envoy-max-retries": "3", "x-forwarded-for": "127.0.0.1"}
    answer = call(gate, payer.key, CALL | {"user": "unlucky"}, **repeat)
    assert (answer.status_code, answer.json()) == (500, {"error": {"message": "not today"}})
    assert len(upstream.asked) == 1
    assert payer.usage() == (0, 0)


def test_an_exhausted_budget_refuses(gate, url):
    # What the first one costs leaves enough for one more, and what the second one costs does not.
    poor = Payer(url, str(most(CALL) + COST * 3 / 2))
    assert [call(gate, poor.key).status_code for _ in range(2)] == [200, 200]
    Upstream.asked.clear()
    told = refused(call(gate, poor.key), 403, "BUDGET_EXHAUSTED")
    assert "budget" in told["message"]
    assert poor.usage() == (2 * COST, 0)


def test_a_stop_refuses_within_a_second(gate, payer, upstream):
    assert call(gate, payer.key).status_code == 200
    stop = payer.admin.post("/stops", json={"scope": f"principal:{payer.name}", "reason": "the test says so"})
    began = time.monotonic()
    eventually(lambda: call(gate, payer.key).status_code == 403, "a refusal")
    assert time.monotonic() - began < 1
    upstream.asked.clear()
    assert "the test says so" in refused(call(gate, payer.key), 403, "stopped")["message"]
    payer.admin.delete(f"/stops/{stop.json()['id']}").raise_for_status()
    eventually(lambda: call(gate, payer.key).status_code == 200, "an end of the stop")


@pytest.mark.parametrize("headers", [{"Authorization": ""}, {"Authorization": "Bearer ent_wrong"}, {"Authorization": "", "X-API-Key": "wrong"}])
def test_without_a_key_nothing_passes(gate, headers):
    answer = call(gate, "", **headers)
    refused(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    "said",
    [b"", b"[1]", b"no JSON", written(CALL | {"model": "free"}), written(CALL | {"max_tokens": -1}), written({"model": "gpt-5"})],
)
def test_a_call_without_a_price_is_not_made(gate, payer, upstream, said):
    headers = {"Authorization": f"Bearer {payer.key}", "Content-Type": "application/json"}
    answer = httpx.post(f"{gate}/v1/chat/completions", content=said, headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert (payer.usage(), upstream.asked) == ((0, 0), [])


def test_what_a_client_says_of_its_call_does_not_count(gate, payer, upstream):
    forged = {"x-entente-reserve": "USD=0", "x-entente-model": "cheap", "x-entente-call-id": "again", "x-entente-reservation": "mine"}
    upstream.go.clear()
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(call, gate, payer.key, **forged) for _ in range(2)]
        eventually(lambda: len(upstream.asked) == 2, "both calls")
        assert payer.usage() == (0, 2 * most(CALL))
        upstream.go.set()
    assert [answer.result().status_code for answer in answers] == [200, 200]
    assert payer.usage() == (2 * COST, 0)


def many(asking, fits: int) -> None:
    """Makes 32 calls at once, whose answers wait until all are judged, and requires that as many pass as fit."""
    Upstream.go.clear()
    with ThreadPoolExecutor(32) as pool:
        calls = [pool.submit(asking) for _ in range(32)]
        eventually(lambda: len(Upstream.asked) + sum(one.done() for one in calls) == 32, "a judgement of each")
        assert len(Upstream.asked) == fits
        Upstream.go.set()
    assert sorted(one.result().status_code for one in calls) == fits * [200] + (32 - fits) * [403]
    assert len(Upstream.asked) == fits


def test_of_32_calls_at_once_as_many_pass_as_fit(gate, url):
    budget = Payer(url, str(most(CALL) * 7 + COST))
    many(lambda: call(gate, budget.key), 7)
    assert budget.usage() == (7 * COST, 0)


def test_a_call_that_takes_too_long_costs_what_was_reserved(url, model, payer, tmp_path, upstream):
    assert EXAMPLE.count("timeout: 540s") == 1
    upstream.go.clear()
    with envoy(tmp_path, EXAMPLE.replace("timeout: 540s", "timeout: 0.2s"), gateways_key(url), entente=port_of(url), model=model) as gate:
        assert call(gate, payer.key).status_code == 504
        assert payer.usage() == (most(CALL), 0)
    upstream.go.set()


def test_a_call_that_the_client_gives_up_costs_what_was_reserved(url, model, payer, tmp_path, upstream):
    assert EXAMPLE.count('value: "600"') == 1
    upstream.go.clear()
    with envoy(tmp_path, EXAMPLE.replace('value: "600"', 'value: "2"'), gateways_key(url), entente=port_of(url), model=model) as gate:
        headers = {"Authorization": f"Bearer {payer.key}", "Content-Type": "application/json"}
        with httpx.stream("POST", f"{gate}/v1/chat/completions", content=written(STREAMED), headers=headers) as answer:
            assert "One" in next(answer.iter_lines())
        eventually(lambda: payer.usage() == (most(STREAMED), 0), "a charge")


def test_if_the_script_fails_nothing_passes(url, model, payer, tmp_path):
    head = "function envoy_on_request(handle)\n"
    indent = EXAMPLE.partition(head)[0].rpartition("\n")[2]
    broken = EXAMPLE.replace(head, f"{head}{indent}  handle:nothing()\n")
    with pytest.raises(AssertionError, match="attempt to call method 'nothing'"):
        with envoy(tmp_path, broken, "", entente=port_of(url), model=model) as gate:
            refused(call(gate, payer.key), 422, "invalid_parameter")
            assert payer.usage() == (0, 0)


def test_without_entente_nothing_passes(model, tmp_path, upstream):
    with contextlib.ExitStack() as gates:
        with serving() as url:
            key, budget = gateways_key(url), Payer(url, "1")
            gate = gates.enter_context(envoy(tmp_path, EXAMPLE, key, entente=port_of(url), model=model))
            assert call(gate, budget.key).status_code == 200
        upstream.asked.clear()
        assert call(gate, budget.key).status_code == 503
        assert upstream.asked == []


def test_alone_it_never_settles_and_the_upstream_does(alone, payer, upstream):
    answer = httpx.post(f"{alone}/v1/anything", headers={"X-API-Key": payer.key, "x-entente-reservation": "mine"}, content=b"what it asks")
    assert answer.status_code == 200
    assert payer.usage() == (0, Decimal("0.1"))
    [(_, headers, body)] = upstream.asked
    assert body == b"what it asks" and "x-entente-model" not in headers
    path = f"/spend/reservations/{headers['x-entente-reservation']}"
    # Whoever may act for the caller settles, and a second time changes nothing.
    assert httpx.post(f"{payer.admin.base_url}{path.lstrip('/')}/settle", json={"cost": {"USD": 0.03}}).status_code == 401
    for cost in ("0.03", "0.09"):
        settled = payer.admin.post(f"{path}/settle", json={"cost": {"USD": cost}}, headers={"X-API-Key": payer.key})
        assert (settled.status_code, settled.json()["ended_as"]) == (200, "settled"), settled.text
    assert payer.usage() == (Decimal("0.03"), 0)


ODD = ["/", "/?a=1&b=2", "/v1/models?x=%2F", "/a%2Fb", "//a//b/", "/../budgets", "/%2e%2e/budgets", "/..%2fbudgets", "/a;b=c", "/%C3%A4"]
ODD.append(f"/{'x' * 3000}")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_and_path_is_judged(alone, url, upstream, method):
    budget = Payer(url, "100")
    connection = http.client.HTTPConnection("127.0.0.1", port_of(alone), timeout=30)
    for count, path in enumerate(ODD, 1):
        body = b"something" if method in ("POST", "PUT", "PATCH") else None
        # httpx would tidy the path.
        connection.request(method, path, body, {"X-API-Key": budget.key})
        answer = connection.getresponse()
        assert answer.status == 200, (path, answer.read())
        answer.read()
        assert upstream.asked[-1][0] == f"{method} {path}" and len(upstream.asked) == count
        assert budget.usage() == (0, count * Decimal("0.1"))
    connection.close()


def test_alone_as_many_pass_as_fit(alone, url):
    budget = Payer(url, "1.05")
    many(lambda: httpx.get(f"{alone}/v1/models", headers={"X-API-Key": budget.key}, timeout=30), 10)
    assert budget.usage() == (0, 1)
