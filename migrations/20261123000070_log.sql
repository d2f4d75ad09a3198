-- Logs of intents (RFC-0019): the end of each log, and its events. Messages and receipts have numbers in the same logs
-- (docs/adr/0002-one-order-per-intent.md). The nil intent's log is the system log: principals, keys and agents belong to
-- no intent.

-- End of each log: its last number, the length and head of its hash chain, and the time of its last entry. The row is
-- narrow and is written under the intent's lock with each entry; half-empty pages keep these updates in place (HOT).
CREATE TABLE intent_clock (
    intent_id uuid PRIMARY KEY,
    last_seq  bigint NOT NULL,
    -- Number of events in the hash chain.
    sequence  bigint NOT NULL,
    -- Hash of the last event; null in a log without events.
    head_hash bytea,
    last_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- The system log.
INSERT INTO intent_clock (intent_id, last_seq, sequence, head_hash, last_at)
VALUES ('00000000-0000-0000-0000-000000000000', 0, 0, NULL, '2026-01-01T00:00:00Z');

-- Events of the logs, each sealed into its log's hash chain.
CREATE TABLE events (
    intent_id           uuid NOT NULL,
    -- Number in the intent's log, shared with messages and receipts.
    seq                 bigint NOT NULL,
    -- Number in the hash chain, from 1 without gaps.
    sequence            bigint NOT NULL,
    id                  uuid NOT NULL,
    event_type          text NOT NULL,
    actor               text NOT NULL,
    -- Canonical JSON (RFC 8785): the text that is hashed.
    payload             text NOT NULL,
    created_at          timestamptz NOT NULL,
    previous_event_hash bytea,
    event_hash          bytea NOT NULL,
    -- A client's own event, not one of the server's.
    posted              boolean NOT NULL,
    -- As the client wrote it, in small or capital hexadecimal digits (RFC-0020).
    trace_id            text,
    parent_event_id     text,
    -- Agent's signature on the event (RFC-0018), and whether the server checked it on arrival. The hash covers the
    -- verdict, as it covers `posted`.
    proof               text,
    proof_verified      boolean NOT NULL DEFAULT false,
    -- Writing transaction: orders the records of all intents (ARCHITECTURE.md, "One order").
    xid                 bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (intent_id, seq)
);

-- An intent's events of one type.
CREATE INDEX events_by_type ON events (intent_id, event_type, seq);
-- Readers of all intents: streams, webhooks, triggers.
CREATE INDEX events_by_xid ON events (xid);
-- Events of a trace on all intents, oldest first; without regard to the case of its digits. Most events have no trace.
CREATE INDEX events_by_trace ON events (lower(trace_id), xid, intent_id, seq) WHERE trace_id IS NOT NULL;
