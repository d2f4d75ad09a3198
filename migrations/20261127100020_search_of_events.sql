-- The same for events: a file of its own, so that the locks of two tables are not held together.
CREATE TRIGGER forget_words AFTER DELETE ON events
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_log_words();
