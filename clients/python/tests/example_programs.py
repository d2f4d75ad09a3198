# The examples of ARCP's Python SDK, from the sdist that scripts/setup.sh has downloaded, each with one import changed in its runtime.
# A process per program, forked from one that has imported what they need: importing it takes longer than most of them run.

import contextlib
import multiprocessing
import os
import runpy
import socket
import sys
import time
from pathlib import Path

EXAMPLES = Path(sys.prefix) / "sdists" / "agentruntimecontrolprotocol-1.1.3" / "examples"
SDK, OURS = "from arcp.runtime import ", "from entente.arcp import "
LIMIT = 120.0

programs = multiprocessing.get_context("forkserver")
programs.set_forkserver_preload(["preloaded"])


def rewritten(home):
    """Copies the examples, changes the one import, and returns the names of those in which there was one."""
    changed = []
    for folder in sorted(path.parent for path in EXAMPLES.glob("*/client.py")):
        (home / folder.name).mkdir()
        for path in folder.glob("*.py"):
            text = path.read_text()
            if path.name == "server.py":
                changed += [folder.name] * text.count(SDK)
                text = text.replace(SDK, OURS)
            (home / folder.name / path.name).write_text(text)
    return changed


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _program(path, environment, out):
    os.environ.clear()
    os.environ.update(environment)
    with open(out, "w") as found:
        os.dup2(found.fileno(), 1)
        os.dup2(found.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)
    # A module beside the example may have the name of one of ours.
    sys.modules.pop("server", None)
    sys.argv, sys.path[0] = [str(path)], str(path.parent)
    runpy.run_path(str(path), run_name="__main__")


def start(path, environment, out):
    """Starts a program that writes to a file."""
    process = programs.Process(target=_program, args=[path, environment, out], daemon=True)
    process.start()
    return process


@contextlib.contextmanager
def listening(folder, environment, out):
    """Runs an example's runtime while the block runs, once it listens."""
    process = start(folder / "server.py", environment, out)
    try:
        end = time.monotonic() + LIMIT
        while True:
            assert process.is_alive() and time.monotonic() < end, out.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(environment["ARCP_DEMO_PORT"]))):
                break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.join()


def ended(process, out):
    """Waits for a program's end, and returns its exit status and what it has written."""
    process.join(LIMIT)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode, out.read_text()
