-- The release before finds the ends of logs by their block, as this one does; nobody names the segment any more.
UPDATE schema_floor SET version = 20261130110030;
ALTER TABLE intent_clock DROP COLUMN segment;
