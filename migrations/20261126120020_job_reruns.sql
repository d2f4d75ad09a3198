-- Jobs that run an ended job again, each with that job. A row never changes.
CREATE TABLE job_reruns (
    job_id       uuid PRIMARY KEY,
    -- The job that is run again.
    source_id    uuid NOT NULL,
    -- Principal that asked for it.
    requested_by text NOT NULL,
    -- The key that it was asked for with: under the same key a job is run again once.
    request_key  text
);

-- Jobs that run a job again.
CREATE INDEX job_reruns_by_source ON job_reruns (source_id, job_id);
