# The 22 examples of ARCP's Python SDK with durable agents: each runtime as it is in the sdist but for one import, each client unmodified,
# once through that runtime and once at the server itself. What they print is what they print with the SDK's own runtime.
#
# With that, five of them fail: `cancel` and `subscribe` expect answers that it does not give, `cost_budget` a target that it does not
# take, `custom_auth` a refusal where it has a fault of its own, and `host_asgi` mounts an application where a function is meant.

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from example_programs import EXAMPLES, ended, free_port, listening, rewritten, start
from entente import Entente, operations
from server import AGENTS, ARCP_SETTINGS

NAMES = """ack_backpressure agent_versions cancel cost_budget custom_auth delegate heartbeat host_aiohttp host_asgi
host_tracing idempotent_retry lease_expires_at lease_violation list_jobs progress provisioned_credentials result_chunk
resume stdio submit_and_stream subscribe vendor_extensions""".split()
# Alone, one after the other: `list_jobs` counts all running jobs, the client of `stdio` gives Python five seconds to begin.
FIRST = ["list_jobs", "stdio"]
# Then `subscribe`, which gives an agent a second to begin, and `heartbeat`, which waits for 12; once that agent has begun all others, in
# turns if their agents have one name at the server.
BEGINS, WAITS = "subscribe", "heartbeat"
CHAINS = [
    [BEGINS, "lease_expires_at", "resume", "progress"],
    [WAITS],
    ["submit_and_stream", "custom_auth", "host_aiohttp", "host_asgi", "host_tracing", "result_chunk", "vendor_extensions"],
    ["ack_backpressure", "cancel", "cost_budget", "idempotent_retry"],
    ["agent_versions", "delegate", "lease_violation", "provisioned_credentials"],
]
# Those that fail with the SDK; and two that check themselves what they print, and need much time, or a machine that is not busy.
WITHOUT_REFERENCE = ("cancel", "cost_budget", "custom_auth", "host_asgi", "subscribe", "heartbeat", "stdio")
# Of `host_asgi` Starlette serves the health check alone; `stdio` starts its runtime itself; of two clients of `list_jobs` each
# would count the other's jobs.
ONCE = {"host_asgi": "server", "stdio": "runtime", "list_jobs": "runtime"}
# What differs from run to run, or is told in each one's own words.
OWN_WORDS = [
    (r"\b(job|cred)_\w+", r"\1"),
    (r"\brtk?_\w+\.\.\.", "token"),
    (r"next_cursor=(?!None)\S+", "next_cursor"),
    (r"(Error: |as expected: |tool_result: |\[back_pressure\] |LEASE_EXPIRED |endpoint=|parent/child: ).*", r"\1"),
    # The server's inventory has the agents of all programs.
    (r"agent: (?!summarize).*\n", ""),
    # The server judges each tool call; the example's has no authority.
    (r"\[event \d+\] kind=tool_result body=.*PERMISSION_DENIED.*\n", ""),
    (r"\[event \d+\]|\(events=\d+\)", "event"),
    # Spans, and warnings of asyncio.
    (r"^(?:\{|Future exception)[\s\S]*", ""),
]


def told(text):
    for pattern, word in OWN_WORDS:
        text = re.sub(pattern, word, text, flags=re.M)
    return text


def environment(**more):
    ours = ("ENTENTE_", "ARCP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"PYTHONUNBUFFERED": "1"} | more


def registered(ada, folder):
    """Returns whether the server knows the agents of an example, each of their versions, and the default ones."""
    program = (folder / "server.py").read_text()
    known = {one.name: one for one in ada.call(operations.list_inventory()).agents}
    versions = re.findall(r'register_agent(?:_version)?\(\s*"([^"]+)"(?:,\s*"([^"]+)")?', program)
    defaults = re.findall(r'set_default_agent_version\(\s*"([^"]+)",\s*"([^"]+)"', program)
    return all(name in known and (not version or version in known[name].versions) for name, version in versions) and all(
        known[name].default == version for name, version in defaults
    )


def run(ada, folder, at_hand, home):
    """Runs an example's runtime and its clients side by side; returns each client's exit status and output, by where it has connected.
    Ada looks whether its agents are there."""
    name, port = folder.name, free_port()
    at_hand = at_hand | {"ARCP_DEMO_PORT": str(port)}
    urls = {"runtime": f"ws://127.0.0.1:{port}/arcp"}
    if "ENTENTE_URL" in at_hand:
        urls["server"] = at_hand["ENTENTE_URL"].replace("http", "ws", 1) + "/arcp"
    ways = [ONCE[name]] if name in ONCE else list(urls)

    def clients(left=2):
        outs = {way: home / f"{name}-{way}" for way in ways}
        started = {way: start(folder / "client.py", at_hand | {"ARCP_DEMO_URL": urls[way]}, outs[way]) for way in ways}
        found = {way: ended(process, outs[way]) for way, process in started.items()}
        # The SDK's client gives its server five seconds to answer, of which a busy machine may need more.
        late = any(status and "TimeoutError" in said for status, said in found.values())
        return clients(left - 1) if late and left else found

    if name == "stdio":
        return clients()
    with listening(folder, at_hand, home / f"{name}-listening"):
        # A client at the server finds the versions that are registered there; the runtime lets its clients wait for that.
        until = time.monotonic() + 60
        while "server" in ways and not registered(ada, folder):
            assert time.monotonic() < until, f"{name}: the server does not know its agents after 60 s"
            time.sleep(0.1)
        return clients()


def cancel_all(server, agent):
    with Entente(server.url, server.operator) as operator:
        for job in operator.call(operations.list_jobs(agent=agent, status="running,pending")).jobs:
            operator.call(operations.cancel_job(job.job_id, {}))


@pytest.fixture(scope="module")
def found(server, tmp_path_factory):
    """Runs all examples with both runtimes, as far as they do not disturb each other; yields what each client has ended with."""
    ours, sdks, home = (tmp_path_factory.mktemp(name) for name in ("ours", "sdks", "examples"))
    assert rewritten(home) == NAMES
    durable = environment(
        ENTENTE_URL=server.url,
        ENTENTE_API_KEY=AGENTS["agent.ada"],
        ENTENTE_ARCP_TOKEN_SECRET=ARCP_SETTINGS["ENTENTE_ARCP_TOKEN_SECRET"],
    )
    with ThreadPoolExecutor(8) as pool, Entente(server.url, AGENTS["agent.ada"]) as ada:

        def several(chain, folders=home, environ=durable, outs=ours):
            return pool.submit(lambda: [(name, run(ada, folders / name, environ, outs)) for name in chain])

        runs = several(FIRST).result()
        if any(status for status, _ in dict(runs)["list_jobs"].values()):
            # It has given three jobs a tenth of a second to begin.
            cancel_all(server, "hold")
            runs += several(["list_jobs"]).result()
        begun = [several(chain) for chain in CHAINS[:2]]
        observers = [ours / f"{BEGINS}-{way}" for way in ("runtime", "server")]
        while not begun[0].done() and not all(path.exists() and "observed" in path.read_text() for path in observers):
            time.sleep(0.1)
        begun += [several(chain) for chain in CHAINS[2:]]
        # The SDK's own runtimes know nothing of each other.
        alike = [name for name in NAMES if name not in WITHOUT_REFERENCE]
        reference = several(alike, EXAMPLES, environment(), sdks)
        runs += [one for chain in begun for one in chain.result()]
        yield dict(runs), dict(reference.result())


def test_the_list_of_examples_is_complete():
    assert EXAMPLES.is_dir(), "download them first: make setup"
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/client.py")) == NAMES
    assert sorted([*FIRST, *(name for chain in CHAINS for name in chain)]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_durable_by_one_import(found, name):
    runs, reference = found
    for way, (status, said) in runs[name].items():
        assert status == 0, f"{way}: {said}"
        if name in reference:
            assert told(said) == told(reference[name]["runtime"][1]), way
