-- no-transaction
-- The end of a log: guarded writes name the segment, readers take the last one. It replaces the primary key once no server
-- of the release before writes by that one.
CREATE UNIQUE INDEX CONCURRENTLY intent_clock_by_segment ON intent_clock (intent_id, segment);
