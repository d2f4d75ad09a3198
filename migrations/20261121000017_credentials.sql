-- Credentials that are provisioned for jobs (ARCP §9.8): one row per value. A rotation makes another row of the same id.
-- The row is there before anybody is asked for a value, so that no value is ever out that nobody knows of.
CREATE TABLE credentials (
    id          uuid NOT NULL,
    -- Which of the credential's values, from 1. With the id this is the alias under which it is asked for.
    generation  integer NOT NULL,
    job_id      uuid NOT NULL,
    -- By its name in the operator's file.
    provisioner text NOT NULL,
    state       text NOT NULL CHECK (state IN ('minting', 'live', 'revoking', 'revoked', 'stuck')),
    -- Whether the job's worker brought it: then it is not known there by our alias.
    given       boolean NOT NULL,
    asked_at    timestamptz NOT NULL,
    -- What the upstream calls it.
    upstream_id text,
    -- The secret itself, as long as the job's worker needs it, or a repeated submit must be answered as the first was.
    value       text,
    -- SHA-256 of it, for ever: no value serves two jobs.
    value_hash  bytea,
    endpoint    text,
    profile     text,
    -- JSON: what the upstream enforces by itself.
    constraints text,
    -- When it is looked at next: of one that is minted when whoever asked must be gone, of one that is revoked when that
    -- is tried next, of one that is gone when its value is wiped.
    due_at      timestamptz,
    -- Attempts at its revocation.
    attempts    integer NOT NULL,
    last_error  text,
    ended_at    timestamptz,
    PRIMARY KEY (id, generation)
) WITH (fillfactor = 70);
CREATE INDEX credentials_by_job ON credentials (job_id);
CREATE INDEX credentials_by_state ON credentials (state, id, generation);
CREATE INDEX credentials_due ON credentials (state, due_at) WHERE due_at IS NOT NULL;
CREATE UNIQUE INDEX credentials_once ON credentials (value_hash) WHERE value_hash IS NOT NULL;
