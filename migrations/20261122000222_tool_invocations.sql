-- Uses of tools (RFC-0014): written before the call is made, and finished after it.

CREATE TABLE tool_invocations (
    id              uuid PRIMARY KEY,
    grant_id        uuid NOT NULL,
    -- Who owns the vault: so many calls into its vaults are under way at once.
    owner_id        text NOT NULL,
    service         text NOT NULL,
    tool            text NOT NULL,
    agent_id        text NOT NULL,
    -- JSON, without what is secret.
    parameters      text NOT NULL,
    status          text NOT NULL CHECK (status IN ('running', 'success', 'denied', 'error')),
    -- JSON: what the tool answered, without the credential's secret.
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
    -- An agent says so; the server made no call.
    reported        boolean NOT NULL,
    started_at      timestamptz NOT NULL,
    -- While it is running: when nobody is left who could finish it.
    deadline_at     timestamptz,
    -- Nobody saw its end. Who did after all may still write it down.
    interrupted     boolean NOT NULL DEFAULT false
);

CREATE INDEX tool_invocations_by_grant ON tool_invocations (grant_id, id);
CREATE INDEX tool_invocations_running ON tool_invocations (owner_id) WHERE status = 'running';
CREATE INDEX tool_invocations_by_deadline ON tool_invocations (deadline_at) WHERE status = 'running';
CREATE INDEX tool_invocations_by_age ON tool_invocations (started_at) WHERE status <> 'running';
