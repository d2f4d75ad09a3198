-- Assignments of agents to intents (RFC-0001), with the agent's role on the intent.
CREATE TABLE assignments (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    agent_id    text NOT NULL,
    role        text NOT NULL,
    assigned_by text NOT NULL,
    assigned_at timestamptz NOT NULL,
    -- Assigning an agent again changes its role.
    CONSTRAINT assignments_once UNIQUE (intent_id, agent_id)
);

-- Intents that an agent is assigned to.
CREATE INDEX assignments_by_agent ON assignments (agent_id);
