-- An event can be several updates, and a receiver takes them one by one. So its place is within an event: `sent` is the number of the
-- updates that it was sent, or that were left out, of the first event after `sent_of`. It counts only while that is its position: a
-- server of the release before moves the position alone.
ALTER TABLE task_pushes ADD COLUMN sent integer NOT NULL DEFAULT 0;
ALTER TABLE task_pushes ADD COLUMN sent_of bigint NOT NULL DEFAULT 0;

-- Whether there may be events after the position. So nobody asks each job of an idle receiver for its last event.
ALTER TABLE task_pushes ADD COLUMN behind boolean NOT NULL DEFAULT true;

-- A trigger, because servers of the release before write events too.
CREATE FUNCTION wake_receivers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE task_pushes SET behind = true WHERE NOT behind AND job_id IN (SELECT job_id FROM inserted);
    RETURN NULL;
END $$;
CREATE TRIGGER wake_receivers AFTER INSERT ON job_events
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION wake_receivers();
