-- no-transaction
-- The actors of a log whose proofs were verified, for its bundle.
CREATE INDEX CONCURRENTLY events_proved ON events (intent_id, actor) WHERE proof_verified;
