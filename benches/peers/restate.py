"""Restate, its server from npm, with a service in Node.js."""

import contextlib
import json
import os
import subprocess

import kit

NAME = "Restate"
SERVER = "@restatedev/restate-server"


def program() -> str:
    """Returns the server itself: npm's command is a wrapper."""
    kit.npm_version(SERVER)
    found = [path for path in (kit.HERE / "node_modules" / "@restatedev").glob("restate-server-*/bin/restate-server")]
    if not found:
        raise kit.Unavailable(f"npm's {SERVER} has no program for this machine")
    return str(found[0])


def version(_stage) -> str:
    return kit.called([program(), "--version"]).split()[-1]


def synced() -> str:
    """Returns how durable the default settings are, as the server itself says."""
    config = subprocess.run([program(), "--dump-config"], capture_output=True, text=True).stdout
    off = [line for line in config.splitlines() if line.replace(" ", "").startswith("rocksdb-disable-wal-fsync=true")]
    return "usual settings, its log without fsync" if off else "usual settings: one node, its log with fsync"


@contextlib.contextmanager
def works(stage):
    ingress, admin, fabric, service = (kit.free_port() for _ in range(4))
    settings = os.environ | {
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
    }
    words = [program(), "--base-dir", stage.place / "restate", "--bind-ip", "127.0.0.1", "--bind-port", fabric, "--no-logo"]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(kit.running(words, stage.place / "restate.log", env=settings, cwd=stage.place))
        code = stack.enter_context(kit.running([kit.node(), kit.HERE / "restate_service.js", service], stage.place / "service.log"))
        kit.wait(code, lambda: kit.listens(service))
        kit.wait(server, lambda: kit.listens(admin) and kit.listens(ingress))

        def registered():
            with contextlib.suppress(kit.Unavailable, OSError):
                return kit.ask("POST", f"http://127.0.0.1:{admin}/deployments", {"uri": f"http://127.0.0.1:{service}"})

        kit.wait(server, registered)
        body = {"text": kit.TEXT}
        kit.wait(server, lambda: kit.ask("POST", f"http://127.0.0.1:{ingress}/echo/run", body) == body)
        durable = synced()
        yield [
            kit.Work(
                "invocation, from the call to its result",
                durable,
                "cycles",
                lambda: kit.shoot(stage.place, ingress, kit.post("/echo/run", body)),
                "its handler is a service in Node.js; no authentication",
            ),
            kit.Work(
                "one-way send of an invocation",
                durable,
                "sends",
                lambda: kit.shoot(stage.place, ingress, kit.post("/echo/run/send", body)),
                "the handler runs meanwhile, which the messages of Entente do not need; no authentication",
            ),
        ]
