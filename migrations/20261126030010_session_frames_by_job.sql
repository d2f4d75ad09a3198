-- no-transaction
-- Whether a session still gets events of a job.
CREATE INDEX CONCURRENTLY session_frames_by_job ON session_frames (job_id);
