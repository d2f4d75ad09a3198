-- Failures (RFC-0010): failed attempts at an intent, and the consequence of each.
CREATE TABLE failures (
    id             uuid PRIMARY KEY,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    -- Number in the intent's log under which the failure was recorded: the order of the list, and its cursor.
    seq            bigint NOT NULL,
    agent_id       text NOT NULL,
    attempt_number bigint NOT NULL,
    error_code     text,
    error_message  text,
    recoverable    boolean NOT NULL,
    -- A JSON object of the client.
    metadata       text NOT NULL,
    -- The consequence, as JSON: read and written whole.
    next           text NOT NULL,
    -- Retry that the agent is to be notified of, and when. Null: there is none, or the agent was notified.
    due_attempt    integer,
    due_at         timestamptz,
    announced_at   timestamptz,
    resolved_at    timestamptz,
    created_at     timestamptz NOT NULL,
    CHECK ((due_at IS NULL) = (due_attempt IS NULL))
);

-- Lists of an intent's failures.
CREATE INDEX failures_by_intent ON failures (intent_id, seq);
-- Number of an agent's failures since the policy was changed.
CREATE INDEX failures_by_agent ON failures (intent_id, agent_id, seq);
-- At most one retry of an agent waits on an intent; the agent's next failure replaces it.
CREATE UNIQUE INDEX failures_waiting ON failures (intent_id, agent_id) WHERE due_at IS NOT NULL;
-- Sweep: retries to announce.
CREATE INDEX failures_by_due ON failures (due_at) WHERE due_at IS NOT NULL;
-- Failures that the end of the intent resolves.
CREATE INDEX failures_open ON failures (intent_id) WHERE resolved_at IS NULL;
