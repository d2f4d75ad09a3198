"""Graphile Worker, from npm, on the PostgreSQL that Entente uses too."""

import contextlib
import json
import time

import kit

NAME = "Graphile Worker"
PACKAGE = "graphile-worker"
DATABASE = "graphile"

# Time for the worker to finish what is left after a load.
LEFTOVERS_LIMIT = 60


def version(_stage) -> str:
    return kit.npm_version(PACKAGE)


@contextlib.contextmanager
def works(stage):
    kit.npm_version(PACKAGE)
    postgres = stage.postgres
    postgres.create(DATABASE)
    worker = [kit.node(), kit.HERE / "graphile_worker.js", postgres.url(DATABASE)]
    kit.called([*worker, "migrate"])
    add = f"SELECT graphile_worker.add_job('echo', '{json.dumps({'text': kit.TEXT})}'::json);\n"

    def adds():
        postgres.psql(DATABASE, "DELETE FROM graphile_worker._private_jobs")
        return postgres.pgbench(DATABASE, add)[0]

    def cycles():
        postgres.psql(DATABASE, "DELETE FROM graphile_worker._private_jobs")
        with kit.running(worker, stage.place / "graphile.log") as process:
            kit.wait(process, lambda: kit.said(process, "ready"))
            begun = time.monotonic()
            result, added = postgres.pgbench(DATABASE, add)
            while postgres.psql(DATABASE, "SELECT count(*) FROM graphile_worker._private_jobs") != "0":
                if time.monotonic() > begun + LEFTOVERS_LIMIT:
                    raise kit.Unavailable("its worker does not finish")
                time.sleep(0.02)
            return kit.Result(added / (time.monotonic() - begun), result.share)

    yield [
        kit.Work("add_job", "synchronous_commit on", "sends", adds, "pgbench over a Unix socket, prepared statements; no worker runs; each job is announced with NOTIFY, and PostgreSQL lets such commits happen one at a time"),
        kit.Work(
            "add_job to completion",
            "synchronous_commit on",
            "cycles",
            cycles,
            "added by pgbench; one worker process, 24 jobs at once, its local queue and batched completion as its documentation "
            "says for much load",
        ),
    ]
