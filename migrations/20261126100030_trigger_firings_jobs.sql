-- no-transaction
-- Jobs to submit, in the order of their firings.
CREATE INDEX CONCURRENTLY trigger_firings_jobs ON trigger_firings (number) WHERE job IS NOT NULL;
