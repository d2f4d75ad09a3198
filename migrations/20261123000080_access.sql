-- Access lists of intents (RFC-0011).

-- Policies of access lists. An intent without a row and without entries is open to everybody.
CREATE TABLE acls (
    intent_id      uuid PRIMARY KEY REFERENCES intents (id),
    -- Access of agents that are not listed.
    default_policy text NOT NULL CHECK (default_policy IN ('open', 'closed')),
    -- Entries of this list have expired. Unlisted agents may only read while an open list has entries (OI-7.3), and go on
    -- so when the last entry expires: time takes access and never gives any. A manager who replaces the list clears this.
    narrowed       boolean NOT NULL DEFAULT false
);

COMMENT ON COLUMN acls.narrowed IS 'The last entry ended by its time: those who are not listed go on having read only.';

-- Entries of access lists: an agent with its permission. No entry has an effect from the instant it expires, deleted or not.
CREATE TABLE acl_entries (
    id             uuid PRIMARY KEY,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    -- The agent, under the RFC's name.
    principal_id   text NOT NULL,
    principal_type text NOT NULL,
    permission     text NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
    granted_by     text NOT NULL,
    granted_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    reason         text
);

-- The list of an intent, and an agent's entries on it: read with every operation on the intent.
CREATE INDEX acl_entries_by_intent ON acl_entries (intent_id, principal_id);
-- Intents that an agent was granted access to.
CREATE INDEX acl_entries_by_principal ON acl_entries (principal_id);
-- Sweep: expired entries.
CREATE INDEX acl_entries_by_expiry ON acl_entries (expires_at) WHERE expires_at IS NOT NULL;
