-- no-transaction
-- Receivers of the rings of agents' inboxes: queued in the transaction that adds or rings an entry.
CREATE INDEX CONCURRENTLY webhook_endpoints_of_inbox ON webhook_endpoints (agent_id)
    WHERE removed_at IS NULL AND 'inbox.ring' = ANY (event_types);
