-- Escalations (RFC-0013): what agents put before people.

CREATE TABLE escalations (
    id               uuid PRIMARY KEY,
    intent_id        uuid NOT NULL REFERENCES intents (id),
    escalated_by     text NOT NULL,
    -- The person who alone resolves it; null: a person who can read the intent, or an admin of it.
    assigned_to      text,
    reason           text NOT NULL,
    priority         text NOT NULL CHECK (priority IN ('low', 'medium', 'high', 'critical')),
    urgency          text NOT NULL CHECK (urgency IN ('low', 'medium', 'high', 'critical')),
    -- The client's own object, as JSON text.
    context          text NOT NULL,
    status           text NOT NULL CHECK (status IN ('pending', 'resolved', 'expired')),
    resolved_by      text,
    resolved_at      timestamptz,
    resolution       text,
    resolution_notes text,
    created_at       timestamptz NOT NULL
);

CREATE INDEX escalations_by_intent ON escalations (intent_id, id);
CREATE INDEX escalations_by_person ON escalations (assigned_to, id) WHERE assigned_to IS NOT NULL;
CREATE INDEX escalations_by_status ON escalations (status, id);
CREATE INDEX escalations_waiting ON escalations (intent_id) WHERE status = 'pending';
