-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS receipts_by_xid;
