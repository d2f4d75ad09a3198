-- Limits of running jobs: of an agent's, or of those that a principal submitted. Limits of concurrency keys come with the jobs.
CREATE TABLE job_limits (
    -- agent (all versions of the name) or principal.
    scope       text NOT NULL,
    name        text NOT NULL,
    -- How many jobs run at once, and how many start within so many seconds.
    max_running integer,
    max_starts  integer,
    per_sec     integer,
    set_by      text NOT NULL,
    set_at      timestamptz NOT NULL,
    -- When the jobs that ran already were counted. A claim that began before the limit was there may end after it, so they
    -- are counted again as long as that can be.
    counted_at  timestamptz,
    PRIMARY KEY (scope, name)
);

-- Starts of jobs that a limit counts. A job runs at a gate if it has a row there and its state says that it runs, so that
-- ends need not write here.
CREATE TABLE job_slots (
    -- What jobs are counted by: an agent, a principal, or a principal's key.
    gate       text NOT NULL,
    job_id     uuid NOT NULL,
    started_at timestamptz NOT NULL,
    -- Until when the start is counted, even if the job has ended.
    kept_until timestamptz NOT NULL,
    PRIMARY KEY (gate, job_id, started_at)
);

-- Sweep: starts that no limit counts any more.
CREATE INDEX job_slots_by_age ON job_slots (kept_until);

ALTER TABLE jobs
    -- JSON: the concurrency key and its limits, as submitted.
    ADD COLUMN concurrency text;
ALTER TABLE job_clock
    -- Gate of the job's concurrency key.
    ADD COLUMN gate text,
    -- Whether its last claim was counted at a gate, so that its end lets another job in.
    ADD COLUMN slotted boolean NOT NULL DEFAULT false;
