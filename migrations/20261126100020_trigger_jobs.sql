-- Triggers that submit jobs in place of creating intents (beyond RFC-0017): cron schedules of jobs.

-- JSON: the request for the job, with placeholders; null: the trigger creates intents.
ALTER TABLE triggers ADD COLUMN job text;

ALTER TABLE trigger_firings
    -- JSON: the request for a job, until it is submitted. Its idempotency key is the firing's.
    ADD COLUMN job    text,
    -- The submitted job.
    ADD COLUMN job_id uuid;
