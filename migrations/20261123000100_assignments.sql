-- Assignments of agents to intents (RFC-0001), with the agent's role on the intent.
CREATE TABLE assignments (
    id           uuid PRIMARY KEY,
    intent_id    uuid NOT NULL REFERENCES intents (id),
    agent_id     text NOT NULL,
    role         text NOT NULL,
    assigned_by  text NOT NULL,
    assigned_at  timestamptz NOT NULL,
    -- The agent that had the intent itself and handed it on; null for every other assignment (OI-11.5.2).
    delegated_by text,
    -- The event that announced it, in the intent's log: an agent that opens its stream later is shown that event.
    seq          bigint NOT NULL,
    -- The transaction that wrote that event.
    xid          bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- Assigning an agent again changes its role.
    CONSTRAINT assignments_once UNIQUE (intent_id, agent_id)
);

-- Intents that an agent is assigned to, in the order of the logs.
CREATE INDEX assignments_by_agent ON assignments (agent_id, xid, intent_id, seq);
