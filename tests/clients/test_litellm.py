# A LiteLLM proxy, a real one with a mocked model, whose callback (examples/litellm_budget.py) reserves each call before it is
# made and settles it after it: 64 parallel calls overspend a budget by nothing.

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from conftest import SERVICE

ROOT = Path(__file__).parents[2]
PROXY = ROOT / ".venv" / "litellm" / "bin" / "litellm"
MASTER = "sk-of-the-proxy"

# A token costs 0.0001, a call with its answer of at most 20 tokens less than a cent.
CONFIG = """
model_list:
  - model_name: mock
    litellm_params:
      model: openai/mock
      api_key: none
      mock_response: "Here is a short answer."
      input_cost_per_token: 0.0001
      output_cost_per_token: 0.0001
  - model_name: broken
    litellm_params:
      model: openai/broken
      api_key: none
      mock_response: "litellm.InternalServerError"
      input_cost_per_token: 0.0001
      output_cost_per_token: 0.0001
  - model_name: shaky
    litellm_params:
      model: openai/shaky
      api_base: UPSTREAM
      api_key: none
      input_cost_per_token: 0.0001
      output_cost_per_token: 0.0001
litellm_settings:
  callbacks: litellm_budget.entente
  telemetry: false
  num_retries: 1
general_settings:
  master_key: %s
"""

CALL = {"model": "mock", "max_tokens": 20, "messages": [{"role": "user", "content": "Say something short, please."}]}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Upstream(BaseHTTPRequestHandler):
    """An upstream of which each first attempt fails, and which remembers what it was asked."""

    asked = []

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, told = 500, {"error": {"message": "not yet", "type": "server_error"}}
        if len(self.asked) % 2 == 0:
            said = {"role": "assistant", "content": "At last."}
            usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
            choices = [{"index": 0, "message": said, "finish_reason": "stop"}]
            status, told = 200, {"id": "x", "object": "chat.completion", "created": 1, "model": "shaky", "choices": choices, "usage": usage}
        content = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="module")
def proxy(url, upstream, tmp_path_factory):
    """A proxy on this machine, which asks the server under test."""
    place = tmp_path_factory.mktemp("litellm")
    (place / "config.yaml").write_text((CONFIG % MASTER).replace("UPSTREAM", upstream))
    (place / "litellm_budget.py").write_text((ROOT / "examples" / "litellm_budget.py").read_text())
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ENTENTE_", "DATABASE_URL"))}
    settings = {
        "ENTENTE_URL": url,
        "ENTENTE_API_KEY": SERVICE,
        "ENTENTE_MAX_TOKENS": "100",
        # Nothing is fetched from elsewhere.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "DISABLE_ADMIN_UI": "True",
    }
    log = (place / "log").open("w")
    command = [PROXY, "--config", place / "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, cwd=place, env=kept | settings, stdout=log, stderr=subprocess.STDOUT)
    base = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{base}/health/liveliness", timeout=5).status_code == 200:
                    break
            time.sleep(0.3)
        else:
            pytest.fail("LiteLLM's proxy did not start: " + (place / "log").read_text()[-3000:])
        yield base
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def budget(url, operator):
    """A budget of the gateway's key owner that takes a dozen of the calls."""
    admin = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": operator}, timeout=30)
    whom = httpx.get(f"{url}/api/v1/principals/me", headers={"X-API-Key": SERVICE}).json()["principal_id"]
    made = admin.post("/budgets", json={"scope": f"principal:{whom}", "unit": "USD", "limit": "0.05"})
    assert made.status_code == 201, made.text
    path = f"/budgets/{made.json()['id']}"
    yield lambda: {name: Decimal(str(value)) for name, value in admin.get(path).json()["usage"].items() if name in ("limit", "spent", "reserved", "left")}
    admin.delete(path)


def called(proxy: str, body: dict, key: str = MASTER, **headers: str) -> httpx.Response:
    return httpx.post(f"{proxy}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}", **headers}, timeout=60)


def settled(budget) -> dict:
    """What is spent once nothing is reserved: LiteLLM calls back after its answer."""
    end = time.monotonic() + 30
    while (usage := budget())["reserved"] != 0:
        assert time.monotonic() < end, usage
        time.sleep(0.1)
    return usage


def test_64_parallel_calls_overspend_nothing(proxy, budget):
    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda _n: called(proxy, CALL), range(64)))
    good = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 403]
    assert len(good) + len(refused) == 64, [answer.text for answer in answers if answer.status_code not in (200, 403)][:3]
    assert good and refused
    assert "budget" in refused[0].text
    usage = settled(budget)
    assert usage["spent"] <= usage["limit"], usage
    cost = sum(Decimal(answer.json()["usage"]["total_tokens"]) * Decimal("0.0001") for answer in good)
    assert usage["spent"] == cost, "every call is charged with what it cost, once"


def test_a_call_that_fails_costs_nothing(proxy, budget):
    before = settled(budget)
    answer = called(proxy, CALL | {"model": "broken"})
    assert answer.status_code >= 400
    assert settled(budget)["spent"] == before["spent"]


def test_a_call_id_of_the_client_pays_for_one_call(proxy, budget):
    before = settled(budget)
    answers = [called(proxy, CALL, **{"x-litellm-call-id": "again"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    cost = sum(Decimal(answer.json()["usage"]["total_tokens"]) * Decimal("0.0001") for answer in answers)
    assert settled(budget)["spent"] == before["spent"] + cost


def test_an_attempt_that_fails_leaves_the_next_one_its_cost(proxy, budget):
    Upstream.asked.clear()
    answer = called(proxy, {"model": "shaky", "messages": CALL["messages"]})
    assert answer.status_code == 200, answer.text
    # A call that does not limit its answer is limited to what is reserved.
    assert [asked["max_tokens"] for asked in Upstream.asked] == [100, 100]
    end = time.monotonic() + 30
    while (usage := settled(budget))["spent"] != Decimal("0.002"):
        assert time.monotonic() < end, usage
        time.sleep(0.1)


def test_a_stop_reaches_the_gateway(proxy, budget, url, operator):
    admin = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": operator}, timeout=30)
    assert called(proxy, CALL).status_code == 200
    whom = httpx.get(f"{url}/api/v1/principals/me", headers={"X-API-Key": SERVICE}).json()["principal_id"]
    stop = admin.post("/stops", json={"scope": f"principal:{whom}", "reason": "the test says so"}).json()
    try:
        refused = called(proxy, CALL)
        assert refused.status_code == 403 and "the test says so" in refused.text
    finally:
        admin.delete(f"/stops/{stop['id']}")
    assert called(proxy, CALL).status_code == 200
