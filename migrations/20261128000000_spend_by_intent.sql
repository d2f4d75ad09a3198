-- no-transaction
-- Costs charged for an intent, for its bundle.
CREATE INDEX CONCURRENTLY spend_by_intent ON spend (intent_id, id) WHERE intent_id IS NOT NULL;
