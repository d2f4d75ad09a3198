-- Receivers of mailboxes (AEE §5): what is put into a mailbox is queued for them in the same transaction. Such an endpoint
-- sees as the entity whose mailbox it is: `agent_id` names it.
ALTER TABLE webhook_endpoints
    DROP CONSTRAINT webhook_endpoints_kind_check,
    ADD CONSTRAINT webhook_endpoints_kind_check CHECK (kind IN ('subscription', 'agent', 'mailbox'));

CREATE INDEX webhook_endpoints_of_mailbox ON webhook_endpoints (agent_id) WHERE kind = 'mailbox' AND removed_at IS NULL;

-- What a rule leaves something out of is kept for its sender; its recipients have another envelope instead.
ALTER TABLE aee_envelopes
    DROP CONSTRAINT aee_envelopes_status_check,
    ADD CONSTRAINT aee_envelopes_status_check CHECK (status IN ('accepted', 'held', 'answered', 'redacted'));

-- Why a person agreed to a task or did not, in their words.
ALTER TABLE aee_pairs ADD COLUMN reason text;
