-- Retries of failed jobs, their checkpoints, and starts at a time (beyond ARCP).

-- JSON: the retry policy of the version; null: what fails ends.
ALTER TABLE agent_versions ADD COLUMN retry text;

ALTER TABLE jobs
    -- JSON: the retry policy of the job, as resolved when it was accepted.
    ADD COLUMN retry         text,
    -- Seconds that it may wait in the queue at a time.
    ADD COLUMN queue_timeout integer;

ALTER TABLE job_clock
    -- Attempts that failed and were followed by another; the other claims are counted by `attempt` alone.
    ADD COLUMN failures     integer NOT NULL DEFAULT 0,
    -- When the job may be claimed. Until then `agent` is empty, so that no claim finds it, one of an older release
    -- neither; then `agent` is restored, and this cleared.
    ADD COLUMN not_before   timestamptz,
    -- When its wait in the queue ends it; without a meaning while it runs.
    ADD COLUMN queue_due_at timestamptz;

-- Attempts that ended without ending their jobs. The last attempt of a job is in `job_clock`.
CREATE TABLE job_attempts (
    job_id      uuid NOT NULL,
    attempt     integer NOT NULL,
    worker_id   uuid NOT NULL,
    claimed_at  timestamptz NOT NULL,
    ended_at    timestamptz NOT NULL,
    -- Code and words of the failure; null: the worker was lost.
    code        text,
    message     text,
    -- When the next attempt could begin.
    next_at     timestamptz NOT NULL,
    -- SHA-256 of the claim's token and of the report of the failure: the same report again is a retry.
    claim_token bytea NOT NULL,
    report      bytea,
    PRIMARY KEY (job_id, attempt)
);

-- The progress that a job's workers stored last: the next attempt continues from it.
CREATE TABLE job_checkpoints (
    job_id   uuid PRIMARY KEY,
    -- Attempt that stored it.
    attempt  integer NOT NULL,
    -- JSON as received.
    body     text NOT NULL,
    saved_at timestamptz NOT NULL
);
