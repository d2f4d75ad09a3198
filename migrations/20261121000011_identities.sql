-- Agents' Ed25519 keys (RFC-0018): every key that an agent ever had, and the registrations that are under way.

CREATE TABLE identity_keys (
    agent_id      text NOT NULL,
    -- Which of the agent's keys, from 1.
    number        integer NOT NULL,
    public_key    bytea NOT NULL,
    -- When the registration was made that led to this key by rotations.
    registered_at timestamptz NOT NULL,
    -- The time in which it counts: what it signed then can be checked for ever, so no row is ever deleted.
    valid_from    timestamptz NOT NULL,
    expires_at    timestamptz,
    ended_at      timestamptz,
    -- rotated, revoked or replaced.
    ended_by      text,
    PRIMARY KEY (agent_id, number)
);

-- One registration at a time for each agent: a later one takes its place, its completion deletes it, and its time ends it
-- whether or not the row is still there.
CREATE TABLE identity_challenges (
    agent_id       text PRIMARY KEY,
    public_key     bytea NOT NULL,
    key_expires_at timestamptz,
    challenge      bytea NOT NULL,
    expires_at     timestamptz NOT NULL
);

-- The server has checked the event's proof when it came. It is under the event's hash, as `posted` is.
ALTER TABLE events ADD COLUMN proof_verified boolean NOT NULL DEFAULT false;
