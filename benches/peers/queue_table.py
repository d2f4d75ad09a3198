"""A queue in a table of PostgreSQL, by hand: rows with a time of visibility, claimed with SKIP LOCKED, deleted when done, as
pgmq does it."""

import contextlib
import json

import kit
import postgres

NAME = "Table with SKIP LOCKED"

TABLE = """
CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, visible_at timestamptz NOT NULL, reads int NOT NULL DEFAULT 0,
                    sent_at timestamptz NOT NULL DEFAULT now(), message jsonb NOT NULL);
CREATE INDEX ON queue (visible_at);
"""

SEND = "INSERT INTO queue (visible_at, message) VALUES (now(), '{}');\n"

# A claim finds nothing if the other clients hold all messages at that moment; there is another client that deletes it then.
CYCLE = (
    SEND
    + """
WITH next AS (SELECT id FROM queue WHERE visible_at <= now() ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED),
     claimed AS (UPDATE queue q SET visible_at = now() + interval '30 s', reads = reads + 1 FROM next WHERE q.id = next.id
                 RETURNING q.id, q.message)
SELECT coalesce((SELECT id FROM claimed), 0) AS id \\gset
DELETE FROM queue WHERE id = :id;
"""
)


def version(_stage) -> str:
    return f"PostgreSQL {postgres.version()}"


@contextlib.contextmanager
def works(stage):
    stage.postgres.create("queue")
    stage.postgres.psql("queue", TABLE)
    text = json.dumps({"text": kit.TEXT})

    def run(script):
        stage.postgres.psql("queue", "TRUNCATE queue")
        return stage.postgres.pgbench("queue", script.replace("{}", text))[0]

    durable, conditions = "synchronous_commit on", "pgbench over a Unix socket, prepared statements; nothing checks who may do what"
    yield [
        kit.Work("send: INSERT", durable, "sends", lambda: run(SEND), conditions),
        kit.Work("send, claim, delete: three statements", durable, "cycles", lambda: run(CYCLE), conditions),
    ]
