-- Failures (RFC-0010): attempts at an intent that failed, and what comes of each.

CREATE TABLE failures (
    id             uuid PRIMARY KEY,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    -- The number on the intent's line under which it was recorded: the order of the list, and its cursor.
    seq            bigint NOT NULL,
    agent_id       text NOT NULL,
    attempt_number bigint NOT NULL,
    error_code     text,
    error_message  text,
    recoverable    boolean NOT NULL,
    -- A JSON object of the client's own.
    metadata       text NOT NULL,
    -- What comes of it, as JSON: read and written whole.
    next           text NOT NULL,
    -- Which retry its agent is to be told of, and when. Null: nobody is to be told, or was told.
    due_attempt    integer,
    due_at         timestamptz,
    announced_at   timestamptz,
    resolved_at    timestamptz,
    created_at     timestamptz NOT NULL,
    CHECK ((due_at IS NULL) = (due_attempt IS NULL))
);

CREATE INDEX failures_by_intent ON failures (intent_id, seq);
-- How often an agent has failed since the policy was changed.
CREATE INDEX failures_by_agent ON failures (intent_id, agent_id, seq);
-- At most one retry of an agent waits on an intent; the next failure of the agent takes its place.
CREATE UNIQUE INDEX failures_waiting ON failures (intent_id, agent_id) WHERE due_at IS NOT NULL;
CREATE INDEX failures_by_due ON failures (due_at) WHERE due_at IS NOT NULL;
-- What is settled when the intent is completed.
CREATE INDEX failures_open ON failures (intent_id) WHERE resolved_at IS NULL;
