-- The same for jobs.
CREATE FUNCTION forget_job_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone) THEN
        PERFORM pg_advisory_xact_lock_shared(7308907224262534405);
        DELETE FROM search_documents d USING gone g WHERE d.source_id = g.id AND d.seq = 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER forget_words AFTER DELETE ON jobs
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_job_words();
