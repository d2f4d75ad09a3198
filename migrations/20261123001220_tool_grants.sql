-- Grants of credentials (RFC-0014), and how much of them was used.

-- Grants: each lets an agent use a credential.
CREATE TABLE tool_grants (
    id            uuid PRIMARY KEY,
    credential_id uuid NOT NULL REFERENCES tool_credentials,
    vault_id      uuid NOT NULL,
    agent_id      text NOT NULL,
    granted_by    text NOT NULL,
    scopes        text[] NOT NULL,
    -- Tools named in `context`, for look-ups.
    tools         text[] NOT NULL,
    -- JSON.
    constraints   text,
    delegatable   boolean NOT NULL,
    -- Grants above this one, the outermost first. A call obeys all of them, and the end of one ends all below it.
    ancestors     uuid[] NOT NULL,
    -- JSON.
    context       text NOT NULL,
    suspended     boolean NOT NULL DEFAULT false,
    expires_at    timestamptz,
    -- The expiry was recorded in the log.
    expired       boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL,
    revoked_at    timestamptz
);

-- Lists of an agent's grants.
CREATE INDEX tool_grants_by_agent ON tool_grants (agent_id, id);
-- Candidates for a call of an agent.
CREATE INDEX tool_grants_in_force ON tool_grants (agent_id) WHERE NOT expired AND revoked_at IS NULL;
-- Grants of a credential.
CREATE INDEX tool_grants_by_credential ON tool_grants (credential_id, id);
-- The removal of a vault revokes its grants.
CREATE INDEX tool_grants_by_vault ON tool_grants (vault_id) WHERE revoked_at IS NULL;
-- Sweep: expiries to record.
CREATE INDEX tool_grants_by_end ON tool_grants (expires_at) WHERE NOT expired AND revoked_at IS NULL;
-- Sweep: ended grants after their retention time.
CREATE INDEX tool_grants_by_age ON tool_grants (least(revoked_at, expires_at)) WHERE expired OR revoked_at IS NOT NULL;

-- Calls by the minute under grants with an hourly limit: in the database, so that all servers count together.
CREATE TABLE tool_grant_uses (
    grant_id uuid NOT NULL,
    minute   timestamptz NOT NULL,
    uses     integer NOT NULL,
    PRIMARY KEY (grant_id, minute)
);

-- Sweep: minutes that no longer count.
CREATE INDEX tool_grant_uses_by_age ON tool_grant_uses (minute);
