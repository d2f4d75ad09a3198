-- Policy of envelopes: rules and schemas, with the version by which servers notice their changes.

-- Rules for the envelopes that may pass between entities (AEE §11.5).
CREATE TABLE aee_rules (
    name       text PRIMARY KEY,
    -- JSON.
    rule       text NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL
);

-- Schemas of payloads (AEE §6.4), by purpose and type.
CREATE TABLE aee_schemas (
    purpose    text NOT NULL,
    type       text NOT NULL CHECK (type IN ('task', 'result', 'error')),
    -- The text as published.
    schema     text NOT NULL,
    -- Treatment of a payload that does not fit.
    policy     text NOT NULL CHECK (policy IN ('off', 'warn', 'enforce')),
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL,
    -- Version of the policy that changed the schema, so that a server reads only the changed ones again.
    version    bigint NOT NULL,
    PRIMARY KEY (purpose, type)
);

-- Version of the policy. Each change of rules or schemas raises it in its own transaction, so that every server notices at
-- its next commit (docs/adr/0008-policy-snapshot-checked-at-commit.md).
CREATE TABLE aee_version (
    -- Allows one row only.
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);

INSERT INTO aee_version (one, version) VALUES (true, 0);
