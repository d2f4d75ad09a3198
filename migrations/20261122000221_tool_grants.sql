-- Grants of credentials in vaults (RFC-0014), and what of them was used.

CREATE TABLE tool_grants (
    id            uuid PRIMARY KEY,
    credential_id uuid NOT NULL REFERENCES tool_credentials,
    vault_id      uuid NOT NULL,
    agent_id      text NOT NULL,
    granted_by    text NOT NULL,
    scopes        text[] NOT NULL,
    -- The tools that `context` names, to be found by.
    tools         text[] NOT NULL,
    -- JSON.
    constraints   text,
    delegatable   boolean NOT NULL,
    -- The grants above it, the first one first: a call keeps to all of them, and an end of one is the end of all below.
    ancestors     uuid[] NOT NULL,
    -- JSON.
    context       text NOT NULL,
    suspended     boolean NOT NULL DEFAULT false,
    expires_at    timestamptz,
    -- The end was written to the log.
    expired       boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL,
    revoked_at    timestamptz
);

CREATE INDEX tool_grants_by_agent ON tool_grants (agent_id, id);
-- Among which the one for a call is looked for.
CREATE INDEX tool_grants_in_force ON tool_grants (agent_id) WHERE NOT expired AND revoked_at IS NULL;
CREATE INDEX tool_grants_by_credential ON tool_grants (credential_id, id);
CREATE INDEX tool_grants_by_vault ON tool_grants (vault_id) WHERE revoked_at IS NULL;
CREATE INDEX tool_grants_by_end ON tool_grants (expires_at) WHERE NOT expired AND revoked_at IS NULL;
-- By when they were over, to be forgotten.
CREATE INDEX tool_grants_by_age ON tool_grants (least(revoked_at, expires_at)) WHERE expired OR revoked_at IS NOT NULL;

-- Calls by the minute, of grants that are limited by the hour.
CREATE TABLE tool_grant_uses (
    grant_id uuid NOT NULL,
    minute   timestamptz NOT NULL,
    uses     integer NOT NULL,
    PRIMARY KEY (grant_id, minute)
);

CREATE INDEX tool_grant_uses_by_age ON tool_grant_uses (minute);
