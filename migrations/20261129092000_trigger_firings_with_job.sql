-- no-transaction
-- The latest jobs of a trigger, however many firings were skipped since.
CREATE INDEX CONCURRENTLY trigger_firings_with_job ON trigger_firings (trigger_id, number)
    WHERE job IS NOT NULL OR job_id IS NOT NULL;
