-- The lines of one thread among those of a principal, without reading all of them.
CREATE INDEX aee_logs_by_thread ON aee_logs (principal_id, corr, seq) WHERE corr IS NOT NULL;
