-- no-transaction
-- The release before reads the few rows of an intent by the index of blocks, which begins with the intent too.
DROP INDEX CONCURRENTLY IF EXISTS intent_clock_by_segment;
