-- Requests for access to intents, and the decisions about them (RFC-0011).
CREATE TABLE access_requests (
    id                   uuid PRIMARY KEY,
    intent_id            uuid NOT NULL REFERENCES intents (id),
    -- The requesting agent, under the RFC's name.
    principal_id         text NOT NULL,
    principal_type       text NOT NULL,
    requested_permission text NOT NULL CHECK (requested_permission IN ('read', 'write', 'admin')),
    reason               text NOT NULL,
    status               text NOT NULL CHECK (status IN ('pending', 'approved', 'denied')),
    -- Capabilities of the requester, to help the admins decide.
    capabilities         text[] NOT NULL,
    decided_by           text,
    decided_at           timestamptz,
    decision_reason      text,
    created_at           timestamptz NOT NULL
);

-- Lists of an intent's requests, by age.
CREATE INDEX access_requests_by_intent ON access_requests (intent_id, id);
