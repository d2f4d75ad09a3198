# The tarball and the wheel of `make dist`, each run in an empty place: no checkout, nothing on PATH, and for the wheel no installed
# PostgreSQL. ENTENTE_DIST names a directory of a finished build; without it the unoptimised program is packed in the same way.

import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".venv" / "packaging" / "wheels"
# Folders of installed PostgreSQL that the program searches.
INSTALLED = ["/usr/lib/postgresql", "/usr/local/pgsql", *(f"/usr/pgsql-{major}" for major in (15, 16, 17, 18))]
# Programs that an empty place has.
COREUTILS = ["cat", "env", "ls", "sh", "sleep", "tr"]
DEMO_LIMIT = 300


@contextlib.contextmanager
def directory():
    """An empty directory on a disk: the unoptimised program is large, and memory may not be executable."""
    with tempfile.TemporaryDirectory(prefix="entente-dist-", dir="/var/tmp") as made:
        # When the tests run as root, PostgreSQL runs as another user, which needs access.
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.fixture(scope="session")
def dist():
    """A directory with a tarball and a wheel."""
    if built := os.environ.get("ENTENTE_DIST"):
        yield ROOT / built
        return
    with directory() as out:
        # The profile of the tests' program, so that nothing is compiled.
        subprocess.run([ROOT / "scripts" / "dist.sh", "dev", out / "dist"], check=True)
        yield out / "dist"


@pytest.fixture
def place():
    """An empty place: a directory with a few programs, the only ones on PATH."""
    with directory() as place:
        (place / "bin").mkdir()
        for name in COREUTILS:
            (place / "bin" / name).symlink_to(next(path for path in (Path("/usr/bin", name), Path("/bin", name)) if path.exists()))
        yield place


def alone(place: Path) -> dict[str, str]:
    """Returns the environment of an empty place."""
    return {"PATH": str(place / "bin"), "HOME": str(place), "XDG_DATA_HOME": str(place / "data"), "LANG": "C.UTF-8"}


def hidden() -> list[str]:
    """Returns the words that run a command without the installed PostgreSQL; only root can hide it."""
    there = [folder for folder in INSTALLED if Path(folder).is_dir()]
    if not there:
        return []
    if os.geteuid() != 0:
        pytest.skip("a PostgreSQL is installed, and only root can hide it")
    hide = " && ".join(f"mount -t tmpfs none {folder}" for folder in there)
    return ["unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "sh"]


def demo(program: Path, place: Path, before: list[str] = []) -> str:
    """Runs the demo, and returns all that it printed."""
    words = [*before, "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in alone(place).items()), program, "demo"]
    done = subprocess.run(words, cwd=place, timeout=DEMO_LIMIT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(dist: Path, place: Path) -> Path:
    """Installs the wheel into a fresh environment, and returns its program."""
    [wheel] = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    offline = ["--no-index", "--find-links", WHEELS] if WHEELS.is_dir() else []
    subprocess.run([place / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *offline, wheel], check=True)
    return place / "venv" / "bin" / "entente"


def test_the_files_are_named_after_the_version_and_the_machine(dist):
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    names = sorted(path.name for path in dist.iterdir())
    machine = platform.machine()
    assert names[0] == "SHA256SUMS"
    assert names[1] == f"entente-{version}-linux-{machine}.tar.gz"
    assert re.fullmatch(rf"entente_server-{re.escape(version)}-py3-none-manylinux\w+{machine}\.whl", names[2])
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


def test_the_tarball_runs_the_demo(dist, place):
    [tarball] = dist.glob("*.tar.gz")
    with tarfile.open(tarball) as packed:
        names = packed.getnames()
        packed.extractall(place, filter="data")
    top = names[0].split("/")[0]
    assert {name.partition("/")[0] for name in names} == {top}, "everything is in one folder"
    kept = {name.partition("/")[2] for name in names}
    assert {"entente", "LICENSE", "README.md", "CHANGELOG.md", ".env.example", "deploy/systemd/entente.service"} <= kept
    assert {f"completions/entente.{shell}" for shell in ("bash", "zsh", "fish")} <= kept
    assert demo(place / top / "entente", place)


def test_the_wheel_brings_postgresql_along(dist, place):
    """The demo with the installed wheel, where no PostgreSQL is installed."""
    program = install(dist, place)
    said = subprocess.run([program, "--version"], env=alone(place), check=True, text=True, stdout=subprocess.PIPE).stdout
    assert re.fullmatch(r"entente \d+\.\d+\.\d+\S* \(.+\)\n", said), said
    assert demo(program, place, hidden())


def decide(program: Path, place: Path, said: list[str]) -> None:
    """Asks a question as an agent by the command line, and answers it on the page, through the link of the server."""
    given = dict(line.strip().removeprefix("export ").split("=", 1) for line in said if line.strip().startswith("export "))
    agent = alone(place) | given

    def entente(*words: str) -> str:
        done = subprocess.run([program, *words], env=agent, cwd=place, text=True, capture_output=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    link = next(line.strip() for line in said if "/l/" in line)
    base = given["ENTENTE_URL"]
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.addheaders = [("Origin", base)]

    def read(path: str, **fields: str) -> str:
        body = urllib.parse.urlencode(fields).encode() if fields else None
        with browser.open(base + path, body, timeout=10) as page:
            return page.read().decode()

    (place / "question.json").write_text(entente("moment", "example"))
    asked = json.loads(entente("moment", "ask", "human.dev", "question.json", "--as", "agent.first", "--json"))
    with browser.open(link, b"", timeout=10) as inbox:
        assert asked["id"] in inbox.read().decode()
    form = read(f"/inbox/{asked['id']}")
    token, digest = (re.search(rf'name="{name}" value="([^"]+)"', form)[1] for name in ("token", "digest"))
    read(f"/inbox/{asked['id']}/answer", token=token, digest=digest, kind="option", option="0")
    assert json.loads(entente("moment", "show", asked["id"], "--as", "agent.first", "--json"))["state"] == "resolved"


def test_from_an_installed_wheel_to_the_first_decision_is_under_a_minute(dist, place):
    """`entente dev` with the PostgreSQL of the wheel; an agent asks, and its person decides on the page."""
    program = install(dist, place)
    words = [*hidden(), "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in alone(place).items())]
    with subprocess.Popen(
        [*words, program, "dev", "--bind", "127.0.0.1:0", "--data-dir", place / "data"],
        cwd=place, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as server:
        too_long = threading.Timer(60, server.terminate)
        too_long.start()
        try:
            said = []
            for line in server.stdout:
                said.append(line)
                if "Ctrl-C stops the server." in line:
                    break
            assert any("/l/" in line for line in said), server.stderr.read()
            decide(program, place, said)
            assert server.poll() is None, "it took longer than a minute"
        finally:
            too_long.cancel()
            server.send_signal(signal.SIGTERM)
            _, log = server.communicate(timeout=60)
    assert "creating a private PostgreSQL 18" in log, log
