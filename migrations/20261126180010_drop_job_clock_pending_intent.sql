-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS job_clock_pending_intent;
