-- no-transaction
-- Numbers of a queue: jobs that are kept out of it because their concurrency key is full wait, too.
CREATE INDEX CONCURRENTLY job_clock_parked_agent ON job_clock (agent) WHERE status = 'pending' AND parked;
