-- Leases on scopes of intents, requests for arbitration, and decisions (RFC-0003).

CREATE TABLE leases (
    id            uuid PRIMARY KEY,
    intent_id     uuid NOT NULL REFERENCES intents (id),
    agent_id      text NOT NULL,
    -- As its holder wrote it.
    scope         text NOT NULL,
    -- What it covers, in its one form: the parts of a path into the state, joined by `/`; empty for all of it.
    path          text NOT NULL,
    -- The number on the intent's line under which it was acquired: the later holder has the larger one.
    fencing_token bigint NOT NULL,
    -- As it was last written down: one that has run out is still `active` here until somebody comes by.
    status        text NOT NULL CHECK (status IN ('active', 'released', 'expired', 'revoked')),
    acquired_at   timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    CHECK ((status = 'active') = (ended_at IS NULL))
);

-- One holder of a scope, whatever the code thinks. Also how a patch of the state finds what is held.
CREATE UNIQUE INDEX leases_one_holder ON leases (intent_id, path) WHERE status = 'active';
-- Its order is exact, whatever the time says: two leases can be born within a microsecond.
CREATE INDEX leases_by_intent ON leases (intent_id, fencing_token);
CREATE INDEX leases_by_holder ON leases (agent_id) WHERE status = 'active';
CREATE INDEX leases_by_expiry ON leases (expires_at) WHERE status = 'active';

CREATE TABLE arbitrations (
    id           uuid PRIMARY KEY,
    intent_id    uuid NOT NULL REFERENCES intents (id),
    requester_id text NOT NULL,
    reason       text NOT NULL,
    -- JSON of the client's own: an object, and a list.
    context      text NOT NULL,
    options      text NOT NULL,
    status       text NOT NULL CHECK (status IN ('pending', 'resolved')),
    -- The decision that answers it, and that one's outcome.
    decision_id  uuid,
    resolution   text,
    created_at   timestamptz NOT NULL,
    resolved_at  timestamptz
);

CREATE INDEX arbitrations_by_intent ON arbitrations (intent_id, id);

-- Decisions stand for ever: rows are never changed.
CREATE TABLE decisions (
    id                uuid PRIMARY KEY,
    intent_id         uuid NOT NULL REFERENCES intents (id),
    decision_maker_id text NOT NULL,
    decision_type     text NOT NULL,
    outcome           text NOT NULL,
    reasoning         text NOT NULL,
    -- A JSON list of the client's own.
    evidence          text NOT NULL,
    arbitration_id    uuid REFERENCES arbitrations (id),
    created_at        timestamptz NOT NULL
);

CREATE INDEX decisions_by_intent ON decisions (intent_id, id);
