-- Invocations of tools (RFC-0014): a row is written before the call and completed after it.
CREATE TABLE tool_invocations (
    id              uuid PRIMARY KEY,
    grant_id        uuid NOT NULL,
    -- Owner of the vault: the number of concurrent calls into an owner's vaults is limited.
    owner_id        text NOT NULL,
    service         text NOT NULL,
    tool            text NOT NULL,
    agent_id        text NOT NULL,
    -- JSON, without secrets.
    parameters      text NOT NULL,
    status          text NOT NULL CHECK (status IN ('running', 'success', 'denied', 'error')),
    -- JSON: the tool's answer, without the credential's secret.
    result          text,
    error           text,
    cost            text,
    duration_ms     integer,
    http_status     integer,
    request_bytes   integer,
    response_bytes  integer,
    idempotency_key text,
    -- JSON.
    context         text NOT NULL,
    -- Reported by an agent: the server made no call.
    reported        boolean NOT NULL,
    started_at      timestamptz NOT NULL,
    -- While it is running: the time after which nobody can complete it any more.
    deadline_at     timestamptz,
    -- No server saw its end. One that did after all may still record it.
    interrupted     boolean NOT NULL DEFAULT false
);

-- Lists of a grant's invocations.
CREATE INDEX tool_invocations_by_grant ON tool_invocations (grant_id, id);
-- Number of running calls into an owner's vaults.
CREATE INDEX tool_invocations_running ON tool_invocations (owner_id) WHERE status = 'running';
-- Sweep: interrupted calls.
CREATE INDEX tool_invocations_by_deadline ON tool_invocations (deadline_at) WHERE status = 'running';
-- Sweep: invocations after their retention time.
CREATE INDEX tool_invocations_by_age ON tool_invocations (started_at) WHERE status <> 'running';
