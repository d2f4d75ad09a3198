-- Requests whose senders wait for the answer in a call (RFC-0021 §3): who waits for whom. A call that is answered at once
-- has no row, so that it costs no write; and neither has a request that nobody waits for.
CREATE TABLE request_waits (
    message_id uuid PRIMARY KEY,
    channel_id uuid NOT NULL,
    intent_id  uuid NOT NULL,
    -- The agent that waits, and those that all must answer; none if any of several may.
    agent_id   text NOT NULL,
    awaited    text[] NOT NULL,
    since      timestamptz NOT NULL,
    -- A waiting call moves this on; what is past it has no call any more.
    until      timestamptz NOT NULL
);

-- Whether anybody waits, and what a killed server has left.
CREATE INDEX request_waits_by_end ON request_waits (until);
