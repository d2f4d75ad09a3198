-- no-transaction
-- Jobs that a request has run again, for its repetition.
CREATE INDEX CONCURRENTLY job_reruns_by_request ON job_reruns (requested_by, request_key, source_id) WHERE request_key IS NOT NULL;
