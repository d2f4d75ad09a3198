-- no-transaction
-- Claims read `job_clock_queue` since the queue has an order; the index of the time before it is no longer read.
DROP INDEX CONCURRENTLY IF EXISTS job_clock_pending;
