-- Queues of agents that are paused or drained; an agent without a row takes and gives out jobs.
CREATE TABLE job_queues (
    -- `name` for all versions of an agent, or `name@version`.
    agent      text PRIMARY KEY,
    -- Whether jobs are given to workers.
    gives      boolean NOT NULL,
    -- Whether new jobs are accepted.
    accepts    boolean NOT NULL,
    reason     text,
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL
);
