-- no-transaction
-- Jobs of an intent, for its page.
CREATE INDEX CONCURRENTLY jobs_by_intent ON jobs (intent_id, id) WHERE intent_id IS NOT NULL;
