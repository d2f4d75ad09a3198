-- Permits (RFC-0013, approvals): what agents ask to be approved before they do it.

CREATE TABLE permits (
    id             uuid PRIMARY KEY,
    intent_id      uuid NOT NULL REFERENCES intents (id),
    requested_by   text NOT NULL,
    -- What for. `complete` is enforced by governance policies; any other is a record that agents go by.
    action         text NOT NULL,
    reason         text NOT NULL,
    -- The client's own object, as JSON text.
    context        text NOT NULL,
    status         text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    -- Who has approved, each once; with a quorum that takes several. Written under the intent's lock only.
    approved_by    text[] NOT NULL,
    decided_by     text,
    decided_at     timestamptz,
    decision_notes text,
    -- What was approved was done: it opens nothing any more.
    used_by        text,
    used_at        timestamptz,
    created_at     timestamptz NOT NULL
);

CREATE INDEX permits_by_intent ON permits (intent_id, id);
-- What can still be used, or become so: looked at by every completion under a policy, and by the end of the intent.
CREATE INDEX permits_open ON permits (intent_id, action, id) WHERE status IN ('pending', 'approved') AND used_at IS NULL;
