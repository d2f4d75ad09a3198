-- Reservations of jobs whose claim or job ended before they were settled. What was spent under them can still be charged, for a day.
CREATE TABLE lapsed_reservations (
    id          uuid PRIMARY KEY,
    job_id      uuid NOT NULL,
    -- SHA-256 of the token of the claim under which it was made.
    claim_token bytea NOT NULL,
    -- Model that the call used.
    model       text,
    lapsed_at   timestamptz NOT NULL,
    settled_at  timestamptz
);

-- Sweep: after a day.
CREATE INDEX lapsed_reservations_by_age ON lapsed_reservations (lapsed_at);
-- Those of deleted jobs.
CREATE INDEX lapsed_reservations_by_job ON lapsed_reservations (job_id);
