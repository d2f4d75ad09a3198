-- Principals: people, agents and services that can own keys.
CREATE TABLE principals (
    id           text PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('human', 'agent', 'service')),
    display_name text,
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL
);

-- The people, who are listed for those that may ask them: few among many agents.
CREATE INDEX principals_people ON principals (id) WHERE kind = 'human';
