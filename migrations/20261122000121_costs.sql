-- Costs (RFC-0009): what work on an intent has used, and what that comes to.

CREATE TABLE costs (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    -- The number on the intent's line under which it was recorded: the order of the list, and its cursor.
    seq         bigint NOT NULL,
    agent_id    text NOT NULL,
    cost_type   text NOT NULL,
    -- Exact: never a binary fraction.
    amount      numeric NOT NULL CHECK (amount >= 0),
    unit        text NOT NULL,
    provider    text,
    model       text,
    -- A JSON object of the client's own.
    metadata    text NOT NULL,
    recorded_at timestamptz NOT NULL
);

CREATE INDEX costs_by_intent ON costs (intent_id, seq);

-- The sums of an intent's costs, kept by the transaction that records each cost, under the intent's lock: however many costs
-- there are, what they come to is read in a few rows.
CREATE TABLE cost_sums (
    intent_id uuid NOT NULL REFERENCES intents (id),
    -- Different units are never added together.
    unit      text NOT NULL,
    axis      text NOT NULL CHECK (axis IN ('all', 'type', 'agent', 'model')),
    -- The type, the agent or the model; empty for all of them.
    key       text NOT NULL,
    amount    numeric NOT NULL,
    count     bigint NOT NULL,
    PRIMARY KEY (intent_id, unit, axis, key)
) WITH (fillfactor = 80);
