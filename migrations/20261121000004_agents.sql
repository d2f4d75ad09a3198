-- The directory of agents (RFC-0016).

CREATE TABLE agents (
    agent_id              text PRIMARY KEY,
    principal_id          text NOT NULL REFERENCES principals (id),
    status                text NOT NULL,
    role_id               text,
    name                  text,
    capabilities          text[] NOT NULL,
    capacity              text,
    endpoint              text,
    -- Null, and never heard: its silence says nothing.
    interval_seconds        integer,
    unhealthy_after_seconds integer,
    dead_after_seconds      integer,
    metadata              text NOT NULL,
    registered_at         timestamptz NOT NULL,
    last_heartbeat_at     timestamptz,
    current_load          bigint NOT NULL,
    tasks_in_progress     text[] NOT NULL,
    drain_timeout_seconds integer,
    draining_since        timestamptz,
    version               bigint NOT NULL
) WITH (fillfactor = 70);

CREATE INDEX agents_by_role ON agents (role_id) WHERE role_id IS NOT NULL;
CREATE INDEX agents_by_status ON agents (status, agent_id);
