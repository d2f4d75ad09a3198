-- no-transaction
-- Receivers that a server sends to, of which a principal has a share.
CREATE INDEX CONCURRENTLY task_pushes_claimed ON task_pushes (claimed_by) WHERE claimed_by IS NOT NULL;
