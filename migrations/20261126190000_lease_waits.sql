-- Requests that wait for a lease (`?wait=` of its acquisition): the queue of an intent's leases.
CREATE TABLE lease_waits (
    intent_id uuid NOT NULL,
    agent_id  text NOT NULL,
    -- As in `leases`: the scope as written, and its normal form.
    scope     text NOT NULL,
    path      text NOT NULL,
    -- Place in the queue: the smallest is first.
    number    bigserial NOT NULL,
    since     timestamptz NOT NULL,
    -- A waiting request moves this on; what is past it has no request any more, and no place.
    until     timestamptz NOT NULL,
    PRIMARY KEY (intent_id, agent_id, path)
);

-- Places that a stopped server has left.
CREATE INDEX lease_waits_by_end ON lease_waits (until);
