-- no-transaction
-- Receivers that a principal has at tasks that are not over, which have a limit.
CREATE INDEX CONCURRENTLY task_pushes_of_principal ON task_pushes (principal_id) WHERE due_at IS NOT NULL;
