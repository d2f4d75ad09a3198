-- Responses stored under idempotency keys: a retry is answered with the stored response, and nothing is done again.
CREATE TABLE idempotency (
    principal_id text NOT NULL,
    key          text NOT NULL,
    -- Fingerprint of the request: a different request under the same key is refused.
    fingerprint  bytea NOT NULL,
    -- The response, as JSON.
    outcome      text NOT NULL,
    created_at   timestamptz NOT NULL,
    CONSTRAINT idempotency_once PRIMARY KEY (principal_id, key)
);

-- Sweep: responses older than the window.
CREATE INDEX idempotency_by_age ON idempotency (created_at);
