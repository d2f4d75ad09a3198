-- no-transaction
CREATE INDEX CONCURRENTLY assignments_in_time ON assignments (agent_id, assigned_at, intent_id);
