-- no-transaction
-- Receivers to which something is to be sent: an idle one is due, and not behind. A server of the release before needs `task_pushes_due`.
CREATE INDEX CONCURRENTLY task_pushes_behind ON task_pushes (due_at) WHERE due_at IS NOT NULL AND behind;
