-- Claims that a worker may repeat, because it named a key. A row is deleted soon after.
CREATE TABLE job_claims (
    worker_id uuid NOT NULL,
    -- SHA-256 of the key.
    key       bytea NOT NULL,
    -- Random. With the key, which is not stored, it gives the tokens.
    salt      bytea NOT NULL,
    -- Number of tokens made.
    tokens    bigint NOT NULL,
    -- Jobs claimed.
    jobs      uuid[] NOT NULL,
    -- Whether the claim was answered again: its jobs stay with the worker, although it did not hear the first answer.
    repeated  boolean NOT NULL,
    made_at   timestamptz NOT NULL,
    PRIMARY KEY (worker_id, key)
);

-- Sweep: keys of old claims.
CREATE INDEX job_claims_by_age ON job_claims (made_at);
