-- Agents' identities (RFC-0018): their Ed25519 keys, and registrations in progress.

-- Every signing key that an agent ever had. Rows are never deleted: the signatures that a key made while it was valid can
-- be checked for ever.
CREATE TABLE identity_keys (
    agent_id      text NOT NULL,
    -- Number among the agent's keys, from 1.
    number        integer NOT NULL,
    public_key    bytea NOT NULL,
    -- Time of the registration that led to this key by rotations.
    registered_at timestamptz NOT NULL,
    -- Validity: from here to the earlier of `expires_at` and `ended_at`.
    valid_from    timestamptz NOT NULL,
    expires_at    timestamptz,
    ended_at      timestamptz,
    -- rotated, revoked or replaced.
    ended_by      text,
    PRIMARY KEY (agent_id, number)
);

-- Open challenges, one for each registering agent. A later registration replaces it, completion deletes it, and after its
-- expiry it counts as gone whether or not the row exists.
CREATE TABLE identity_challenges (
    agent_id       text PRIMARY KEY,
    public_key     bytea NOT NULL,
    key_expires_at timestamptz,
    challenge      bytea NOT NULL,
    expires_at     timestamptz NOT NULL
);
