-- Words leave with their source, whichever release deletes it.

-- Deletes the documents of entries of logs. The lock keeps the follower, which holds it alone while it reads sources and
-- writes documents, from adding a document after this: it does not see the deletion before the commit.
CREATE FUNCTION forget_log_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone) THEN
        PERFORM pg_advisory_xact_lock_shared(7308907224262534405);
        DELETE FROM search_documents d USING gone g WHERE d.source_id = g.intent_id AND d.seq = g.seq;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER forget_words AFTER DELETE ON messages
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_log_words();
