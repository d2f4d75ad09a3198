# Runs `entente conform` on the reference servers from the registries and on this one, and writes docs/conform.md of what it finds.

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from conftest import AGENTS, GRACE, PROGRAM, SERVICE, STOP_LIMIT, serving

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCORES = HERE / "conform" / "scores.json"
PAGE = ROOT / "docs" / "conform.md"

ADA, BOB = AGENTS["agent.ada"], AGENTS["agent.bob"]
TIERS = ("MUST", "SHOULD", "MAY")
START_LIMIT = 60
# All checks of a protocol; those of a server that fails many of them wait for what never comes.
LIMIT = 300


@dataclasses.dataclass
class Server:
    """A server with the protocol that it is checked for."""

    name: str
    protocol: str
    # A context that runs it, and yields its URL.
    run: object
    options: tuple = ()
    keys: tuple = (ADA, BOB)

    @property
    def title(self) -> str:
        return f"{self.name}: {self.protocol}"


class Worker:
    """Runs jobs of the agents `echo`, which ends at once, and `slow`, which ends when it is cancelled, over plain REST."""

    def __init__(self, url: str):
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": SERVICE}, timeout=60)
        for agent in ("echo", "slow"):
            self.http.put(f"/arcp/agents/{agent}/versions/1.0.0", json={"default": True}).raise_for_status()
        body = {"name": "conform", "agents": ["echo@1.0.0", "slow@1.0.0"], "slots": 16}
        self.worker = self.http.post("/workers", json=body).raise_for_status().json()["worker_id"]
        self.stopping = False

    def run(self):
        while not self.stopping:
            claim = {"worker_id": self.worker, "max": 8, "wait_sec": 1}
            for job in self.http.post("/jobs/claim", json=claim).raise_for_status().json()["jobs"]:
                work = self.echo if job["agent"].startswith("echo@") else self.slow
                threading.Thread(target=work, args=[job], daemon=True).start()

    def tell(self, job: dict, what: str, body: dict) -> httpx.Response:
        return self.http.post(f"/jobs/{job['job_id']}/{what}", json=body | {"claim_token": job["claim_token"]})

    def echo(self, job):
        log = {"kind": "log", "body": {"level": "info", "message": "echo started"}}
        self.tell(job, "events", {"events": [log]})
        self.tell(job, "result", {"result": {"echoed": job.get("input")}})

    def slow(self, job):
        while not self.stopping:
            waited = self.tell(job, "signals/wait", {"wait_sec": 5})
            # It is refused once the job is over: it timed out, or its lease did.
            if waited.status_code != 200:
                return
            if waited.json()["cancel_requested"]:
                self.tell(job, "error", {"code": "CANCELLED", "message": "stopped"})
                return


@contextlib.contextmanager
def working(url: str):
    """Runs that worker beside the checks."""
    worker = Worker(url)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    yield
    worker.stopping = True
    thread.join(10)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def listening(words, path: str = ""):
    """Runs a program whose words have a place for its port, and yields its URL once it listens."""
    port = free_port()
    words = [str(word).replace("{port}", str(port)) for word in words]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")}
    environment = kept | {"PORT": str(port), "MCP_PORT": str(port)}
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        said = []
        threading.Thread(target=lambda: said.extend(process.stdout), daemon=True).start()
        try:
            end = time.monotonic() + START_LIMIT
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None and time.monotonic() < end, b"".join(said[-20:]).decode(errors="replace")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}{path}"
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_LIMIT / 3)
                    break


def python(environment: str) -> Path:
    """Returns the Python of one of the environments of scripts/setup.sh."""
    return ROOT / ".venv" / environment / "bin" / "python"


def sample(environment: str, file: str, *words):
    """Runs a server of the folder `conform`."""
    return lambda: listening([python(environment), HERE / "conform" / file, "{port}", *words])


def openintent():
    words = ["-m", "openintent.server", "--host", "127.0.0.1", "--port", "{port}", "--database-url", "sqlite://"]
    return listening([python("conform"), *words, "--api-keys", f"{ADA},{BOB}", "--log-level", "warning"])


def everything():
    modules = HERE / "conform" / "node_modules"
    program = modules / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return listening([modules / ".bin" / "node", program, "streamableHttp"])


# Names of agents that belong to the keys of this server.
OURS = ("--agent=agent.ada", "--second-agent=agent.bob")
# The reference server of OpenIntent takes the key itself for the name of its agent.
THEIRS = (f"--agent={ADA}", f"--second-agent={BOB}")

REFERENCES = [
    Server("openintent 0.17.0 (PyPI)", "openintent", openintent, THEIRS),
    Server("agentruntimecontrolprotocol 1.1.3 (PyPI)", "arcp", sample("", "arcp_runtime.py", ADA, BOB)),
    Server("a2a-sdk 1.3.0 (PyPI)", "a2a", sample("conform", "a2a_sdk.py"), keys=()),
    Server("mcp 1.30.0 (PyPI)", "mcp", sample("", "mcp_sdk.py"), keys=()),
    Server("fastmcp 4.1.4 (PyPI)", "mcp", sample("mcp", "fastmcp_server.py"), keys=()),
    Server("@modelcontextprotocol/server-everything 2026.8.31 (npm)", "mcp", everything, keys=()),
]


def ours(url: str, strict: str = "") -> list[Server]:
    """Returns the protocols of this server, at this URL; `strict` is that of another one in strict mode."""

    def at(place: str):
        return lambda: contextlib.nullcontext(place)

    principal = json.dumps({"principal": GRACE[0]})
    servers = [
        Server("Entente", "openintent", at(url), OURS),
        Server("Entente", "arcp", at(url), OURS),
        Server("Entente", "a2a", at(f"{url}/a2a/echo"), OURS),
        Server("Entente", "mcp", at(url), OURS),
        Server("Entente", "moments", at(url), (*OURS, f"--arguments={principal}")),
        Server("Entente", "aee", at(url), OURS),
    ]
    return [*servers, Server("Entente, strict", "openintent", at(strict), OURS)] if strict else servers


def checked(server: Server) -> list[dict]:
    """Runs the kit on a server, and returns what it found."""
    with server.run() as url:
        keys = dict(zip(("ENTENTE_API_KEY", "ENTENTE_SECOND_KEY"), server.keys))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ENTENTE_")}
        words = [PROGRAM, "conform", url, f"--protocol={server.protocol}", "--json", "--timeout=15", *server.options]
        done = subprocess.run(words, env=kept | keys, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    for key in server.keys:
        assert f'"{key}' not in done.stdout and key not in done.stderr, "a key is printed"
    return json.loads(done.stdout)["checks"]


def all_checked(servers: list[Server]) -> dict[str, list[dict]]:
    """Runs the kit on several servers at once: its checks mostly wait."""
    with ThreadPoolExecutor(8) as pool:
        return dict(zip([server.title for server in servers], pool.map(checked, servers)))


def scores(found: dict[str, list[dict]]) -> dict[str, dict]:
    """Returns what is kept of the results: counts, and the names of the checks that did not pass."""

    def score(checks: list[dict]) -> dict:
        count = lambda tier, result: sum(1 for check in checks if (check["tier"], check["result"]) == (tier, result))
        counts = {tier: [count(tier, result) for result in ("passed", "failed", "skipped")] for tier in TIERS}
        failed = [f"{check['clause']} {check['name']}: {check['says']}" for check in checks if check["result"] == "failed"]
        skipped = [check["name"] for check in checks if check["result"] == "skipped"]
        return counts | {"failed": failed, "skipped": skipped}

    return {title: score(checks) for title, checks in found.items()}


def page(kept: dict[str, dict]) -> str:
    """Returns docs/conform.md."""
    lines = [(HERE / "conform" / "head.md").read_text().rstrip(), ""]
    lines += ["| Server | MUST | SHOULD | MAY |", "|---|---|---|---|"]
    cell = lambda counts: "–" if not any(counts) else f"{counts[0]} of {sum(counts)}" + (f" ({counts[2]} skipped)" if counts[2] else "")
    lines += [f"| {title} | " + " | ".join(cell(score[tier]) for tier in TIERS) + " |" for title, score in kept.items()]
    lines += ["", "## What fails", ""]
    for title, score in kept.items():
        if score["failed"]:
            lines += [f"### {title}", "", *(f"- {one}" for one in score["failed"]), ""]
    return "\n".join(lines).rstrip() + "\n"


@contextlib.contextmanager
def ours_running():
    """Runs this server with its worker, and another one in strict mode; yields their URLs."""
    with serving() as url, serving(ENTENTE_STRICT_RFC0021="true") as strict, working(url):
        yield url, strict


def main():
    with ours_running() as (url, strict):
        kept = scores(all_checked([*REFERENCES, *ours(url, strict)]))
    SCORES.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    PAGE.write_text(page(kept))
    for title, score in kept.items():
        print(f"{title}: " + ", ".join(f"{tier} {'/'.join(map(str, score[tier]))}" for tier in TIERS))


if __name__ == "__main__":
    sys.exit(main())
