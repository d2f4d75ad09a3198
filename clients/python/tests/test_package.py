# What is published: the generated files are those of the document, the types hold, and the wheel works where nothing else is.

import os
import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1]
ROOT = CLIENT.parents[1]
# The wheels that ours depends on, so that its test needs no network (scripts/setup.sh).
WHEELS = Path(sys.prefix) / "client-wheels"
# Type checkers keep what they know of the packages that ours depends on.
CACHE = Path(sys.prefix) / "mypy-cache"

PROGRAM = """
import importlib.metadata, pathlib, entente
assert (pathlib.Path(entente.__file__).parent / "py.typed").exists()
assert entente.__version__ == importlib.metadata.version("entente-client")
with entente.Entente(agent_id="agent.ada") as ada:
    talk = ada.channels.open("talk", ada.create_intent("Installed").id)
    said = talk.notify("agent.bob", {"n": 1})
    assert [one.payload for one in talk.messages()] == [{"n": 1}]
try:
    entente.SigningKey.generate()
except entente.EntenteError as missing:
    print(missing)
"""


def run(*command, **options):
    done = subprocess.run(command, text=True, capture_output=True, timeout=120, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_generated_files_are_up_to_date():
    run(sys.executable, ROOT / "scripts" / "clients.py", "--check", "python")


# The package is in no index.
def test_what_says_how_to_install_it_names_the_clone():
    told = [one for path in CLIENT.glob("src/**/*.py") for one in re.findall(r"""pip install ["']?(\S+)""", path.read_text())]
    assert told and all(one.startswith("./clients/python") for one in told), told


def test_the_types_hold():
    run(sys.executable, "-m", "mypy", f"--cache-dir={CACHE}", cwd=CLIENT)


# A program of a user, and the lines in which a type checker finds a fault.
USER = """
from entente import AsyncJob, Entente, requests
with Entente() as client:
    message = client.ask("chan", "agent.ada", "agent.bob", {"n": 1})
    answer: str = message.payload["answer"]
    wrong: int = message.sender
    print(message.sendr)
    body: requests.SendBody = {"sender": "agent.ada", "payload": {}, "to": 7}
    with client.lease("intent", "scope") as held, client.stream() as stream:
        held.client.update_state("intent", {}, version=1)
        print([event.message.payload for event in stream])
    async def work(job: AsyncJob) -> int:
        await job.progress(1)
        return job.attempt
    client.worker("agent", work).run()
"""


def test_types_find_the_faults_of_a_program(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={CACHE}", "--config-file=", "user.py"]
    done = subprocess.run(command, text=True, capture_output=True, cwd=tmp_path, env=os.environ | {"MYPYPATH": str(CLIENT / "src")})
    assert re.findall(r"^user.py:(\d+): error", done.stdout, re.M) == ["6", "7", "8"], done.stdout


def test_the_wheel_works_in_an_empty_place(server, tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", tmp_path, CLIENT)
    wheel = next(tmp_path.glob("entente_client-*-py3-none-any.whl"))
    assert re.search(r'^version = "(.+)"$', (CLIENT / "pyproject.toml").read_text(), re.M)[1] in wheel.name
    place = tmp_path / "place"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    run(*pip, "--python", python, "install", "--quiet", "--no-index", "--find-links", WHEELS, wheel)
    environment = {"PATH": os.environ["PATH"], "ENTENTE_URL": server.url, "ENTENTE_API_KEY": server.key}
    assert "./clients/python[signing]" in run(python, "-c", PROGRAM, env=environment, cwd=place)
