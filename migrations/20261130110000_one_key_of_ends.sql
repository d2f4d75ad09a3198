-- The end of a log is found by intent and segment. Beside the primary key, which has each version of a row that somebody's
-- snapshot keeps, PostgreSQL took that one, and every new segment wrote both. The releases before `log_order` ended, and
-- those that wrote `ON CONFLICT (intent_id)`, cannot run on this.
UPDATE schema_floor SET version = 20261130110000;
ALTER TABLE intent_clock DROP CONSTRAINT intent_clock_pkey;
-- A published table whose rows change needs an identity, and before PostgreSQL 18 no generated column is published.
ALTER TABLE intent_clock REPLICA IDENTITY FULL;
