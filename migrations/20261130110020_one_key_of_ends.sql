-- The end of a log is found by intent and block alone. The primary key has each version of a row that somebody's snapshot
-- keeps, and the next migration drops the index by segment, which has up to 256. Releases that do not know
-- that index write `ON CONFLICT (intent_id)`, and cannot run on this; the one that made it can.
UPDATE schema_floor SET version = 20261130100010;
ALTER TABLE intent_clock DROP CONSTRAINT intent_clock_pkey;
-- A published table whose rows change needs an identity, and before PostgreSQL 18 no generated column is published.
ALTER TABLE intent_clock REPLICA IDENTITY FULL;
