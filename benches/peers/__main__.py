"""Compares Entente with programs that a user might pick instead: the same work, with 32 clients and the same payload, on one
machine in one run, each with its durable setting. Prints a table, and writes it to bench-results/peers.md unless only some
programs were chosen. `--trial` runs each load for a second only, to show that everything works."""

import dataclasses
import datetime
import os
import signal
import sys
from pathlib import Path

import arcp_runtime
import durable_streams
import entente
import graphile
import jetstream
import kit
import openintent_server
import postgres
import queue_table
import restate

PEERS = {
    "openintent": openintent_server,
    "arcp": arcp_runtime,
    "nats": jetstream,
    "restate": restate,
    "table": queue_table,
    "graphile": graphile,
    "streams": durable_streams,
}
# Times that both sides take turns.
ROUNDS = 3

MISSING = "**not measured**"
HEAD = (
    "| Instead of Entente | Version | What it does | Its durable setting | Theirs/s | Entente/s | Entente ÷ theirs "
    "| Theirs p50 / p99 ms | Entente's p50 / p99 ms | Generator's share, theirs / Entente's | Conditions |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclasses.dataclass
class Stage:
    """What every comparison uses."""

    place: Path
    postgres: postgres.Postgres
    entente: entente.Entente


def machine() -> str:
    """Describes the machine, without its name."""
    text = lambda path: Path(path).read_text() if Path(path).exists() else ""
    models = [line.split(": ", 1)[1] for line in text("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return f"{os.cpu_count()} cores ({models[0] if models else 'unknown'}), {memory} GiB, everything on the same machine, over loopback"


def cell(text) -> str:
    """Returns the text for a cell of the table."""
    return " ".join(str(text).replace("|", "/").split())


def row(*cells) -> str:
    return "| " + " | ".join(map(cell, cells)) + " |"


def latency(result: kit.Result) -> str:
    return "–" if result.p50 is None else f"{result.p50:.1f} / {result.p99:.1f}"


def compare(stage: Stage, name: str, version: str, work: kit.Work, rounds: int) -> str:
    """Has both sides take turns, and returns the row."""
    run, does = entente.WORKS[work.ours]
    theirs, ours = [], []
    for number in range(rounds):
        theirs.append(work.run())
        ours.append(run(stage.entente))
        kit.note(f"  {work.does}: {theirs[-1].rate:.0f}/s; Entente, {does}: {ours[-1].rate:.0f}/s ({number + 1} of {rounds})")
    theirs, ours = kit.median(theirs), kit.median(ours)
    return row(
        name, version, work.does, work.durable, f"{theirs.rate:.0f}", f"{ours.rate:.0f} {does}", f"**{ours.rate / theirs.rate:.2f}**",
        latency(theirs), latency(ours), f"{theirs.share:.0f} % / {ours.share:.0f} %", work.conditions,
    )  # fmt: skip


def compared(stage: Stage, peer, rounds: int) -> list[str]:
    """Returns the rows of a program; one that says why, if it cannot be measured here."""
    kit.note(peer.NAME)
    rows, version = [], "–"
    try:
        version = peer.version(stage)
        with peer.works(stage) as works:
            for work in works:
                rows.append(compare(stage, peer.NAME, version, work, rounds))
    except Exception as error:  # the others go on
        kit.note(f"  not measured: {error!r}")
        rows.append(row(peer.NAME, version, MISSING, *["–"] * 7, error if isinstance(error, kit.Unavailable) else repr(error)))
    return rows


def measured(names: list[str], rounds: int) -> list[str]:
    """Runs everything, and returns the table's rows."""
    with kit.scratch() as place, postgres.started(place) as database:
        database.create("entente")
        with entente.started(place, database.url("entente")) as server:
            stage = Stage(place, database, server)
            return [line for name in names for line in compared(stage, PEERS[name], rounds)]


def write(table: str):
    """Writes the table with its conditions."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    text = (
        f"Measured on {day}. Machine: {machine()}\n\n"
        f"Entente {entente.version()} on PostgreSQL {postgres.version()}; {kit.CLIENTS} clients, each waiting for its answer; texts of "
        f"{len(kit.TEXT)} bytes; medians of {ROUNDS} rounds of {kit.SECONDS} seconds in which both sides take turns. Entente's figures "
        "include authentication, access checks and metrics.\n\n"
    )
    file = kit.ROOT / "bench-results" / "peers.md"
    file.write_text(text + table + "\n")
    kit.note("written to bench-results/peers.md")


def main():
    trial = "--trial" in sys.argv
    names = [word for word in sys.argv[1:] if word != "--trial"]
    if unknown := [name for name in names if name not in PEERS]:
        raise SystemExit(f"there is no {', '.join(unknown)}; there are {', '.join(PEERS)}")
    if not (kit.ENTENTE and kit.LOAD):
        raise SystemExit("start this with scripts/bench-peers.sh, which builds the server and the load generator")
    # So that everything that was started is ended.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    if trial:
        kit.SECONDS = 1
    rows = measured(names or list(PEERS), 1 if trial else ROUNDS)
    table = "\n".join([HEAD, *rows])
    print(table)
    if not (names or trial):
        write(table)
    if MISSING in table:
        raise SystemExit("some programs were not measured; the table says why")


if __name__ == "__main__":
    main()
