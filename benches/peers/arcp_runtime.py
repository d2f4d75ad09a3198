"""ARCP's Python runtime, from PyPI, with its log in SQLite."""

import contextlib
import sys

import kit

NAME = "ARCP's Python runtime"
TOKEN = "peers-token"


def version(_stage) -> str:
    return kit.pypi_version("agentruntimecontrolprotocol")


@contextlib.contextmanager
def works(stage):
    port = kit.free_port()
    words = [sys.executable, "-m", "arcp", "serve", "--port", port, "--token", TOKEN, "--db", stage.place / "arcp.db"]
    with kit.running(words, stage.place / "arcp.log", cwd=stage.place) as process:
        kit.wait(process, lambda: kit.listens(port))
        load = [sys.executable, kit.HERE / "arcp_load.py", f"ws://127.0.0.1:{port}/arcp", TOKEN, kit.CLIENTS, kit.SECONDS, kit.TEXT]
        yield [
            kit.Work(
                "job.submit to job.result, its echo agent",
                "its event log in SQLite (WAL, synchronous FULL)",
                "cycles",
                lambda: kit.loaded(load),
                "its agent runs inside the runtime; jobs that have no result yet do not outlive it. Entente's workers are processes of "
                "their own, and submitted jobs are durable",
            )
        ]
