"""One PostgreSQL with its usual, durable settings, for Entente and for everything else that needs one; and pgbench on it."""

import contextlib
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
from pathlib import Path

import kit

NAME = "peers"
# Four programs with their pools.
CONNECTIONS = 300


def programs() -> Path:
    """Returns the folder of PostgreSQL's programs: the same search as in scripts/setup.sh."""
    config = shutil.which("pg_config")
    folders = [os.environ.get("ENTENTE_PG_BIN", "")]
    folders += [subprocess.run([config, "--bindir"], capture_output=True, text=True).stdout.strip()] if config else []
    for pattern in ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"):
        folders += sorted(glob.glob(pattern), reverse=True)
    for folder in filter(None, folders):
        if all((Path(folder) / program).exists() for program in ("initdb", "postgres", "pgbench", "psql")):
            return Path(folder)
    raise SystemExit("there is no PostgreSQL with pgbench; `make setup` installs it")


def version() -> str:
    """Returns the version."""
    return kit.called([programs() / "postgres", "--version"]).split()[2]


class Postgres:
    """A running PostgreSQL."""

    def __init__(self, bin: Path, sockets: Path, place: Path):
        self.bin, self.sockets, self.place = bin, sockets, place

    def url(self, database: str) -> str:
        """Returns the URL of a database."""
        return f"postgres://{NAME}@localhost/{database}?host={self.sockets}"

    def create(self, database: str):
        """Creates a database."""
        self.psql("postgres", f"CREATE DATABASE {database}")

    def psql(self, database: str, statement: str) -> str:
        """Runs statements, and returns the values that they print."""
        return kit.called([self.bin / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement, self.url(database)]).strip()

    def pgbench(self, database: str, script: str) -> tuple[kit.Result, int]:
        """Runs a script from all clients with prepared statements; returns the result, and the number of its runs."""
        file = self.place / "script.sql"
        file.write_text(script)
        words = [self.bin / "pgbench", "-n", "-M", "prepared", "-j", "2", "-c", kit.CLIENTS, "-T", kit.SECONDS, "-f", file]
        said, share = kit.driven([*words, self.url(database)])
        if failed := re.search(r"number of failed transactions: ([1-9]\d*)", said):
            raise kit.Unavailable(f"{failed.group(1)} transactions fail")
        rate = float(re.search(r"^tps = ([\d.]+)", said, re.M).group(1))
        return kit.Result(rate, share), int(re.search(r"actually processed: (\d+)", said).group(1))


@contextlib.contextmanager
def started(place: Path):
    """Creates a cluster, and runs it until the block ends."""
    bin, data, sockets = programs(), place / "postgres", place / "sockets"
    options = {}
    for folder in (data, sockets):
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            owner = next(user for user in pwd.getpwall() if user.pw_name in ("postgres", "nobody"))
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            options = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    kit.called([bin / "initdb", "-D", data, "-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C"], cwd=data, **options)
    words = [bin / "postgres", "-D", data, "-k", sockets, "-c", "listen_addresses=", "-c", f"max_connections={CONNECTIONS}"]
    log = place / "postgres.log"
    with kit.running(words, log, stop=signal.SIGINT, cwd=data, **options) as process:
        kit.wait(process, lambda: kit.said(process, "ready to accept connections"))
        yield Postgres(bin, sockets, place)
