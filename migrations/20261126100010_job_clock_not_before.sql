-- no-transaction
-- Sweep: jobs that may be claimed from now on.
CREATE INDEX CONCURRENTLY job_clock_not_before ON job_clock (not_before) WHERE not_before IS NOT NULL;
