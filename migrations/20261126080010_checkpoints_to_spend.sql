-- no-transaction
-- Sweep: checkpoints under which events may be deleted.
CREATE INDEX CONCURRENTLY checkpoints_to_spend ON checkpoints (created_at) WHERE NOT spent;
