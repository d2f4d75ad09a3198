-- Coordinators of intents (RFC-0013): appointments, and the coordinators' decisions.

-- Appointments of agents that lead an intent, with their course.
CREATE TABLE coordinators (
    id                uuid PRIMARY KEY,
    intent_id         uuid NOT NULL REFERENCES intents (id),
    agent_id          text NOT NULL,
    role              text NOT NULL,
    -- Besides the intent's admins, the supervisor may pause the coordinator and change its guardrails.
    supervisor_id     text NOT NULL,
    appointed_by      text NOT NULL,
    coordinator_type  text NOT NULL CHECK (coordinator_type IN ('llm', 'human', 'composite', 'system')),
    -- As last written: a coordinator that has fallen silent is `active` here until its silence is recorded.
    status            text NOT NULL CHECK (status IN
        ('registering', 'active', 'paused', 'unresponsive', 'failed_over', 'completing', 'completed')),
    -- A JSON object of the client, or null.
    guardrails        text,
    heartbeat_seconds integer NOT NULL,
    -- Start of its silence: the appointment, the last heartbeat or decision, or the end of a pause.
    heard_at          timestamptz NOT NULL,
    last_heartbeat    timestamptz,
    -- Last heartbeat that was written to the log; few are.
    logged_at         timestamptz,
    -- Start of the period without a decision, and when a stall was recorded.
    progress_at       timestamptz NOT NULL,
    stalled_at        timestamptz,
    granted_at        timestamptz NOT NULL,
    until             timestamptz,
    ended_at          timestamptz,
    -- The agent's role on the intent before, which it gets back afterwards.
    role_before       text,
    metadata          text NOT NULL,
    -- Rises with each change except heartbeats.
    version           bigint NOT NULL,
    -- Next effect of time.
    due_at            timestamptz,
    CHECK ((status IN ('failed_over', 'completed')) = (ended_at IS NOT NULL))
);

-- A role has one coordinator, even if the code errs.
CREATE UNIQUE INDEX coordinators_one_per_role ON coordinators (intent_id, role) WHERE ended_at IS NULL;
-- Lists of an intent's coordinators.
CREATE INDEX coordinators_by_intent ON coordinators (intent_id, id);
-- Sweep: due effects of time.
CREATE INDEX coordinators_due ON coordinators (due_at) WHERE due_at IS NOT NULL;

-- Decisions of coordinators, with their reasons. Rows are never changed.
CREATE TABLE coordinator_decisions (
    id             uuid PRIMARY KEY,
    coordinator_id uuid NOT NULL REFERENCES coordinators (id),
    agent_id       text NOT NULL,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    decision_type  text NOT NULL,
    summary        text NOT NULL,
    rationale      text NOT NULL,
    -- A JSON list of the client.
    alternatives   text NOT NULL,
    confidence     double precision,
    decided_at     timestamptz NOT NULL
);

-- Lists of an intent's decisions.
CREATE INDEX coordinator_decisions_by_intent ON coordinator_decisions (intent_id, id);
-- Lists of a coordinator's decisions, and how many changed the plan.
CREATE INDEX coordinator_decisions_by_coordinator ON coordinator_decisions (coordinator_id, id);
