-- no-transaction
-- The end of a log: guarded writes name the block, readers take the last one.
CREATE UNIQUE INDEX CONCURRENTLY intent_clock_by_block ON intent_clock (intent_id, block);
