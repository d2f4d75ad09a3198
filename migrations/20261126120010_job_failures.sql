-- Jobs that ended without success, each written with its end.
CREATE TABLE job_failures (
    job_id      uuid PRIMARY KEY,
    -- As in `jobs`: a search is of one principal, or of an operator.
    principal   text NOT NULL,
    -- Error code of the end (ARCP §12).
    code        text NOT NULL,
    -- A dead letter: the job failed, nothing tries it again, and nobody has resolved it. A cancelled job is none.
    is_open     boolean NOT NULL,
    resolved_at timestamptz,
    resolved_by text,
    -- What the one who resolved it noted.
    note        text
);

-- Searches for failed jobs of a principal.
CREATE INDEX job_failures_by_principal ON job_failures (principal, job_id);
-- Lists of dead letters: an operator's, and a principal's.
CREATE INDEX job_failures_open ON job_failures (job_id) WHERE is_open;
CREATE INDEX job_failures_open_by_principal ON job_failures (principal, job_id) WHERE is_open;

-- Jobs that failed before are found by their codes too; they are no dead letters, because nobody looked after them as such.
-- The code precedes everything in the payload that a worker has written.
INSERT INTO job_failures (job_id, principal, code, is_open)
SELECT j.id, j.principal, coalesce(substring(e.body FROM '"code":"([A-Z_]+)"'), 'INTERNAL_ERROR'), false
FROM job_clock c JOIN jobs j ON j.id = c.job_id JOIN job_events e ON e.job_id = c.job_id AND e.type = 'job.error'
WHERE c.status IN ('error', 'timed_out', 'cancelled')
ON CONFLICT (job_id) DO NOTHING;
