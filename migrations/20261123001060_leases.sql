-- Leases (RFC-0003): an agent's exclusive hold on a scope of an intent's state.
CREATE TABLE leases (
    id            uuid PRIMARY KEY,
    intent_id     uuid NOT NULL REFERENCES intents (id),
    agent_id      text NOT NULL,
    -- As its holder wrote it.
    scope         text NOT NULL,
    -- The scope in its only normal form: the parts of a path into the state, joined by `/`; empty for the whole state.
    path          text NOT NULL,
    -- Number in the intent's log under which the lease was acquired, so a later holder has a larger one.
    fencing_token bigint NOT NULL,
    -- As last written: an expired lease is `active` here until its end is recorded.
    status        text NOT NULL CHECK (status IN ('active', 'released', 'expired', 'revoked')),
    acquired_at   timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    CHECK ((status = 'active') = (ended_at IS NULL))
);

-- A scope has one holder, even if the code errs. A patch of the state finds held paths by it.
CREATE UNIQUE INDEX leases_one_holder ON leases (intent_id, path) WHERE status = 'active';
-- Lists of an intent's leases. The order is exact even for leases acquired within a microsecond.
CREATE INDEX leases_by_intent ON leases (intent_id, fencing_token);
-- Leases of an agent that leaves.
CREATE INDEX leases_by_holder ON leases (agent_id) WHERE status = 'active';
-- Sweep: leases to expire.
CREATE INDEX leases_by_expiry ON leases (expires_at) WHERE status = 'active';
