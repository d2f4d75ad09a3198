-- Permits (RFC-0013, approvals): requests of agents for an approval before they act.
CREATE TABLE permits (
    id                     uuid PRIMARY KEY,
    intent_id              uuid NOT NULL REFERENCES intents (id),
    requested_by           text NOT NULL,
    -- Principal of the requesting key, because one key can have many names. Null: not recorded.
    requested_by_principal text,
    -- Governance policies enforce `complete`; any other action is a record that agents follow.
    action                 text NOT NULL,
    reason                 text NOT NULL,
    -- A JSON object of the client.
    context                text NOT NULL,
    status                 text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    -- Agents that have approved, each once; a quorum needs several. Written under the intent's lock only.
    approved_by            text[] NOT NULL,
    decided_by             text,
    decided_at             timestamptz,
    decision_notes         text,
    -- The approved action was performed: the permit allows nothing more.
    used_by                text,
    used_at                timestamptz,
    created_at             timestamptz NOT NULL
);

-- Lists of an intent's permits.
CREATE INDEX permits_by_intent ON permits (intent_id, id);
-- Permits that are usable or may become so: read by every completion under a policy, and by the end of the intent.
CREATE INDEX permits_open ON permits (intent_id, action, id) WHERE status IN ('pending', 'approved') AND used_at IS NULL;
