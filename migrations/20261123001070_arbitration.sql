-- Arbitration (RFC-0003): requests for a decision, and the decisions.

-- Requests for arbitration.
CREATE TABLE arbitrations (
    id           uuid PRIMARY KEY,
    intent_id    uuid NOT NULL REFERENCES intents (id),
    requester_id text NOT NULL,
    reason       text NOT NULL,
    -- JSON of the client: an object, and a list.
    context      text NOT NULL,
    options      text NOT NULL,
    status       text NOT NULL CHECK (status IN ('pending', 'resolved')),
    -- Decision that answers the request, and its outcome. No foreign key: `decisions` refers to this table.
    decision_id  uuid,
    resolution   text,
    created_at   timestamptz NOT NULL,
    resolved_at  timestamptz
);

-- Lists of an intent's requests.
CREATE INDEX arbitrations_by_intent ON arbitrations (intent_id, id);

-- Decisions of arbiters. They are records for ever: rows are never changed.
CREATE TABLE decisions (
    id                uuid PRIMARY KEY,
    intent_id         uuid NOT NULL REFERENCES intents (id),
    decision_maker_id text NOT NULL,
    decision_type     text NOT NULL,
    outcome           text NOT NULL,
    reasoning         text NOT NULL,
    -- A JSON list of the client.
    evidence          text NOT NULL,
    arbitration_id    uuid REFERENCES arbitrations (id),
    created_at        timestamptz NOT NULL
);

-- Lists of an intent's decisions.
CREATE INDEX decisions_by_intent ON decisions (intent_id, id);
