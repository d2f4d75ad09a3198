-- Signals to running jobs, in order, until their worker has acknowledged them.
CREATE TABLE job_signals (
    job_id   uuid NOT NULL,
    -- Number in the job, from 1.
    seq      bigint NOT NULL,
    name     text NOT NULL,
    -- JSON as received.
    payload  text,
    -- Principal that sent it, and its key: a repeated signal is stored once.
    sender   text NOT NULL,
    key      text,
    sent_at  timestamptz NOT NULL,
    -- When a worker acknowledged it, and in which attempt.
    acked_at timestamptz,
    acked_in integer,
    PRIMARY KEY (job_id, seq)
);

-- A sender's key is used once in a job.
CREATE UNIQUE INDEX job_signals_by_key ON job_signals (job_id, sender, key) WHERE key IS NOT NULL;

-- Number of the last signal of the job, and of the last acknowledged one: a claim and a heartbeat look no further if there is
-- nothing to deliver.
ALTER TABLE job_clock ADD COLUMN signals_sent bigint NOT NULL DEFAULT 0, ADD COLUMN signals_acked bigint NOT NULL DEFAULT 0;
