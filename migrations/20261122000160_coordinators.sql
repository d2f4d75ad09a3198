-- Coordinators' appointments, and what they have decided (RFC-0013).

CREATE TABLE coordinators (
    id                uuid PRIMARY KEY,
    intent_id         uuid NOT NULL REFERENCES intents (id),
    agent_id          text NOT NULL,
    role              text NOT NULL,
    -- Who may have it rest and bind it, besides the intent's admins.
    supervisor_id     text NOT NULL,
    appointed_by      text NOT NULL,
    coordinator_type  text NOT NULL CHECK (coordinator_type IN ('llm', 'human', 'composite', 'system')),
    -- As it was last written down: one that has fallen silent is `active` here until somebody comes by.
    status            text NOT NULL CHECK (status IN
        ('registering', 'active', 'paused', 'unresponsive', 'failed_over', 'completing', 'completed')),
    -- JSON of the client's own: an object, or nothing.
    guardrails        text,
    heartbeat_seconds integer NOT NULL,
    -- Since when its silence counts.
    heard_at          timestamptz NOT NULL,
    last_heartbeat    timestamptz,
    -- Its last heartbeat that is on the log: few of them are.
    logged_at         timestamptz,
    -- Since when it has decided nothing, and when that was told.
    progress_at       timestamptz NOT NULL,
    stalled_at        timestamptz,
    granted_at        timestamptz NOT NULL,
    until             timestamptz,
    ended_at          timestamptz,
    -- As what the agent was assigned to the intent before; it is that again afterwards.
    role_before       text,
    metadata          text NOT NULL,
    -- Grows with every change but heartbeats.
    version           bigint NOT NULL,
    -- When time does something to it next.
    due_at            timestamptz,
    CHECK ((status IN ('failed_over', 'completed')) = (ended_at IS NOT NULL))
);

-- One in each role, whatever the code thinks.
CREATE UNIQUE INDEX coordinators_one_per_role ON coordinators (intent_id, role) WHERE ended_at IS NULL;
CREATE INDEX coordinators_by_intent ON coordinators (intent_id, id);
CREATE INDEX coordinators_due ON coordinators (due_at) WHERE due_at IS NOT NULL;

-- What coordinators have decided. Rows are never changed.
CREATE TABLE coordinator_decisions (
    id             uuid PRIMARY KEY,
    coordinator_id uuid NOT NULL REFERENCES coordinators (id),
    agent_id       text NOT NULL,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    decision_type  text NOT NULL,
    summary        text NOT NULL,
    rationale      text NOT NULL,
    -- A JSON list of the client's own.
    alternatives   text NOT NULL,
    confidence     double precision,
    decided_at     timestamptz NOT NULL
);

CREATE INDEX coordinator_decisions_by_intent ON coordinator_decisions (intent_id, id);
CREATE INDEX coordinator_decisions_by_coordinator ON coordinator_decisions (coordinator_id, id);
