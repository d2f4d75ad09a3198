-- Escalations (RFC-0013): intents that agents put before people.
CREATE TABLE escalations (
    id                     uuid PRIMARY KEY,
    intent_id              uuid NOT NULL REFERENCES intents (id),
    escalated_by           text NOT NULL,
    -- Principal of the escalating key, because one key can have many names. Null: not recorded.
    escalated_by_principal text,
    -- The only person who may resolve it. Null: a person who can read the intent, or an admin of it.
    assigned_to            text,
    reason                 text NOT NULL,
    priority               text NOT NULL CHECK (priority IN ('low', 'medium', 'high', 'critical')),
    urgency                text NOT NULL CHECK (urgency IN ('low', 'medium', 'high', 'critical')),
    -- A JSON object of the client.
    context                text NOT NULL,
    status                 text NOT NULL CHECK (status IN ('pending', 'resolved', 'expired')),
    resolved_by            text,
    resolved_at            timestamptz,
    resolution             text,
    resolution_notes       text,
    created_at             timestamptz NOT NULL
);

-- Lists of an intent's escalations.
CREATE INDEX escalations_by_intent ON escalations (intent_id, id);
-- Escalations assigned to a person.
CREATE INDEX escalations_by_person ON escalations (assigned_to, id) WHERE assigned_to IS NOT NULL;
-- Lists over all intents by status.
CREATE INDEX escalations_by_status ON escalations (status, id);
-- Pending escalations of an intent: counted, and ended with the intent.
CREATE INDEX escalations_waiting ON escalations (intent_id) WHERE status = 'pending';
