-- Credentials provisioned for jobs (ARCP §9.8), one row for each value: a rotation adds a row with the same id. The row is
-- written before a value is requested, so that no value exists that the server does not know of.
CREATE TABLE credentials (
    id          uuid NOT NULL,
    -- Number among the credential's values, from 1. With the id it is the alias under which the value is requested.
    generation  integer NOT NULL,
    job_id      uuid NOT NULL,
    -- Name in the operator's file.
    provisioner text NOT NULL,
    state       text NOT NULL CHECK (state IN ('minting', 'live', 'revoking', 'revoked', 'stuck')),
    -- Supplied by the job's worker: the provisioner does not know it under our alias.
    given       boolean NOT NULL,
    asked_at    timestamptz NOT NULL,
    -- Name of the value at the upstream.
    upstream_id text,
    -- The secret: kept as long as the job's worker needs it, or as a repeated submit must get the same answer.
    value       text,
    -- SHA-256 of the secret, kept for ever.
    value_hash  bytea,
    endpoint    text,
    profile     text,
    -- JSON: limits that the upstream enforces.
    constraints text,
    -- Next step: for a value being minted, the time by which the requesting server must be gone; for one being revoked, the
    -- next attempt; for a revoked one, the time at which its secret is wiped.
    due_at      timestamptz,
    -- Attempts to revoke it.
    attempts    integer NOT NULL,
    last_error  text,
    ended_at    timestamptz,
    PRIMARY KEY (id, generation)
) WITH (fillfactor = 70);

-- Credentials of a job.
CREATE INDEX credentials_by_job ON credentials (job_id);
-- Lists by state, for the operator.
CREATE INDEX credentials_by_state ON credentials (state, id, generation);
-- Sweep: next steps.
CREATE INDEX credentials_due ON credentials (state, due_at) WHERE due_at IS NOT NULL;
-- No value serves two jobs, ever.
CREATE UNIQUE INDEX credentials_once ON credentials (value_hash) WHERE value_hash IS NOT NULL;
