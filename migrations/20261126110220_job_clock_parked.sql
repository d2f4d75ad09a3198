-- no-transaction
-- Sweep: keys with jobs that are kept out of the queue.
CREATE INDEX CONCURRENTLY job_clock_parked ON job_clock (gate) WHERE status = 'pending' AND parked;
