-- Intents, the line of numbers that each of them has, and the log that is a part of it.

CREATE TABLE intents (
    id                uuid PRIMARY KEY,
    title             text NOT NULL,
    description       text NOT NULL,
    created_by        text NOT NULL,
    parent_id         uuid,
    depends_on        uuid[] NOT NULL,
    -- JSON objects are kept as text: they are read and written whole, and jsonb would rewrite their numbers.
    constraints       text NOT NULL,
    state             text NOT NULL,
    status            text NOT NULL,
    confidence        double precision NOT NULL,
    version           bigint NOT NULL,
    governance_policy text,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL
);

-- An intent's id is its age: newest first is the primary key backwards.
CREATE INDEX intents_by_status ON intents (status, id);

-- One narrow row per intent, written under the intent's lock: the last number of its line, the count and head of its
-- hash chain, and the last entry's time. Half-empty pages keep its updates in place (HOT).
CREATE TABLE intent_clock (
    intent_id uuid PRIMARY KEY,
    last_seq  bigint NOT NULL,
    sequence  bigint NOT NULL,
    head_hash bytea,
    last_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The house's own line: principals, keys and agents belong to no intent.
INSERT INTO intent_clock VALUES ('00000000-0000-0000-0000-000000000000', 0, 0, NULL, '2026-01-01T00:00:00Z');

CREATE TABLE events (
    intent_id           uuid NOT NULL,
    -- Place in the intent's line, shared with messages and receipts.
    seq                 bigint NOT NULL,
    -- Place in the hash chain, from 1 without gaps (RFC-0019).
    sequence            bigint NOT NULL,
    id                  uuid NOT NULL,
    event_type          text NOT NULL,
    actor               text NOT NULL,
    -- Canonical JSON (RFC 8785): the very text that is hashed.
    payload             text NOT NULL,
    created_at          timestamptz NOT NULL,
    previous_event_hash bytea,
    event_hash          bytea NOT NULL,
    -- A client's own event, not the server's word.
    posted              boolean NOT NULL,
    trace_id            text,
    parent_event_id     text,
    proof               text,
    -- The writing transaction: the order of a stream over many intents (see ARCHITECTURE.md, "One order").
    xid                 bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (intent_id, seq)
);

CREATE INDEX events_by_type ON events (intent_id, event_type, seq);
CREATE INDEX events_by_xid ON events (xid);

CREATE TABLE assignments (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    agent_id    text NOT NULL,
    role        text NOT NULL,
    assigned_by text NOT NULL,
    assigned_at timestamptz NOT NULL,
    CONSTRAINT assignments_once UNIQUE (intent_id, agent_id)
);

CREATE INDEX assignments_by_agent ON assignments (agent_id);
