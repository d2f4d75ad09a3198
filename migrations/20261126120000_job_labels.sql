-- Labels of jobs, given with the submission, by which jobs are found again. A row never changes.
CREATE TABLE job_labels (
    job_id    uuid NOT NULL,
    key       text NOT NULL,
    value     text NOT NULL,
    -- As in `jobs`: a search is of one principal, or of an operator.
    principal text NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- Searches by label, the newest jobs first: an operator's, and a principal's.
CREATE INDEX job_labels_by_value ON job_labels (key, value, job_id);
CREATE INDEX job_labels_by_principal ON job_labels (principal, key, value, job_id);
