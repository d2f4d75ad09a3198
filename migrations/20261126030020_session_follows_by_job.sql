-- no-transaction
-- Whether a session still follows a job.
CREATE INDEX CONCURRENTLY session_follows_by_job ON session_follows (job_id);
