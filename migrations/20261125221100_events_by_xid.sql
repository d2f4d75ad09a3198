-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS events_by_xid;
