-- Directory of agents (RFC-0016). An agent without a record can act all the same; a record adds a role, capabilities and
-- heartbeats.
CREATE TABLE agents (
    agent_id                text PRIMARY KEY,
    -- Principal whose key registered the agent.
    principal_id            text NOT NULL REFERENCES principals (id),
    -- As last written; on reading, the agent's silence counts as well.
    status                  text NOT NULL,
    -- Role by which messages can address the agent.
    role_id                 text,
    name                    text,
    capabilities            text[] NOT NULL,
    capacity                text,
    endpoint                text,
    -- Promised heartbeats. Without an interval and without any heartbeat, silence has no consequence.
    interval_seconds        integer,
    unhealthy_after_seconds integer,
    dead_after_seconds      integer,
    metadata                text NOT NULL,
    -- Last registration, which counts as a sign of life too.
    registered_at           timestamptz NOT NULL,
    last_heartbeat_at       timestamptz,
    -- As reported with the last heartbeat.
    current_load            bigint NOT NULL,
    tasks_in_progress       text[] NOT NULL,
    drain_timeout_seconds   integer,
    draining_since          timestamptz,
    -- Rises with each change except heartbeats.
    version                 bigint NOT NULL
) WITH (fillfactor = 70);

-- Agents that a role addresses.
CREATE INDEX agents_by_role ON agents (role_id) WHERE role_id IS NOT NULL;
-- Sweep: agents that may have fallen silent, and agents that drain.
CREATE INDEX agents_by_status ON agents (status, agent_id);
