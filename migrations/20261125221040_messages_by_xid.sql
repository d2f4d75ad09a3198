-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS messages_by_xid;
