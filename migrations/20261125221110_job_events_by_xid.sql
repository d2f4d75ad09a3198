-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS job_events_by_xid;
