-- no-transaction
-- Jobs to submit, those that were not tried yet first. The previous release still reads `trigger_firings_jobs`.
CREATE INDEX CONCURRENTLY trigger_firings_next ON trigger_firings (job_next_at NULLS FIRST, number) WHERE job IS NOT NULL;
