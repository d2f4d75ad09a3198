-- Requests that were done, so that a retry is answered and not done again. Swept by age.

CREATE TABLE idempotency (
    principal_id text NOT NULL,
    key          text NOT NULL,
    -- What was asked, so that another request under the same key is told apart.
    fingerprint  bytea NOT NULL,
    -- What came of it, as JSON.
    outcome      text NOT NULL,
    created_at   timestamptz NOT NULL,
    CONSTRAINT idempotency_once PRIMARY KEY (principal_id, key)
);

CREATE INDEX idempotency_by_age ON idempotency (created_at);
