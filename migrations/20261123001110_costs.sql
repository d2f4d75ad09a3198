-- Costs of work on intents (RFC-0009), and their sums.

-- Costs as they were recorded.
CREATE TABLE costs (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    -- Number in the intent's log under which the cost was recorded: the order of the list, and its cursor.
    seq         bigint NOT NULL,
    agent_id    text NOT NULL,
    cost_type   text NOT NULL,
    -- An exact decimal, never a binary fraction.
    amount      numeric NOT NULL CHECK (amount >= 0),
    unit        text NOT NULL,
    provider    text,
    model       text,
    -- A JSON object of the client.
    metadata    text NOT NULL,
    recorded_at timestamptz NOT NULL
);

-- Lists of an intent's costs.
CREATE INDEX costs_by_intent ON costs (intent_id, seq);

-- Sums of an intent's costs. The transaction that records a cost updates them under the intent's lock, so that a sum is
-- read from a few rows, however many costs there are.
CREATE TABLE cost_sums (
    intent_id uuid NOT NULL REFERENCES intents (id),
    -- Different units are never added together.
    unit      text NOT NULL,
    axis      text NOT NULL CHECK (axis IN ('all', 'type', 'agent', 'model')),
    -- The type, the agent or the model; empty for the sum of all.
    key       text NOT NULL,
    amount    numeric NOT NULL,
    count     bigint NOT NULL,
    PRIMARY KEY (intent_id, unit, axis, key)
) WITH (fillfactor = 80);
