-- A list that was narrowed by entries stays narrow when the last of them ends by itself: time takes access away, it never
-- gives any (RFC-0011; contract 7 leaves it open). A manager who empties the list opens it again.
ALTER TABLE acls ADD COLUMN narrowed boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN acls.narrowed IS 'The last entry ended by its time: those who are not listed go on having read only.';
