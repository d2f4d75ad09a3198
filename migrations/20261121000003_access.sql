-- Who may do what with an intent (RFC-0011). No row in acls: fully open.

CREATE TABLE acls (
    intent_id      uuid PRIMARY KEY REFERENCES intents (id),
    default_policy text NOT NULL CHECK (default_policy IN ('open', 'closed'))
);

CREATE TABLE acl_entries (
    id             uuid PRIMARY KEY,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    principal_id   text NOT NULL,
    principal_type text NOT NULL,
    permission     text NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
    granted_by     text NOT NULL,
    granted_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    reason         text
);

CREATE INDEX acl_entries_by_intent ON acl_entries (intent_id, principal_id);
CREATE INDEX acl_entries_by_principal ON acl_entries (principal_id);
CREATE INDEX acl_entries_by_expiry ON acl_entries (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE access_requests (
    id                   uuid PRIMARY KEY,
    intent_id            uuid NOT NULL REFERENCES intents (id),
    principal_id         text NOT NULL,
    principal_type       text NOT NULL,
    requested_permission text NOT NULL CHECK (requested_permission IN ('read', 'write', 'admin')),
    reason               text NOT NULL,
    status               text NOT NULL CHECK (status IN ('pending', 'approved', 'denied')),
    capabilities         text[] NOT NULL,
    decided_by           text,
    decided_at           timestamptz,
    decision_reason      text,
    created_at           timestamptz NOT NULL
);

CREATE INDEX access_requests_by_intent ON access_requests (intent_id, id);
