-- no-transaction
-- Reads: amounts reserved for calls that an intent pays for, under its cost limit.
CREATE INDEX CONCURRENTLY spend_reservations_by_intent ON spend_reservations (intent_id) WHERE ended_at IS NULL AND intent_id IS NOT NULL;
