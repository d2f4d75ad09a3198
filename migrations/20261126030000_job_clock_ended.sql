-- no-transaction
-- Sweep: jobs past their retention.
CREATE INDEX CONCURRENTLY job_clock_ended ON job_clock (ended_at) WHERE ended_at IS NOT NULL;
