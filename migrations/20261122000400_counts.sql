-- What the dashboard counts, however much there was before: intents and jobs that are not over.
CREATE INDEX intents_open ON intents (id) WHERE status NOT IN ('completed', 'abandoned');
CREATE INDEX job_clock_open ON job_clock (job_id) WHERE ended_at IS NULL;
