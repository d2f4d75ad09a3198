-- Checkpoints of logs (RFC-0019): signed statements about a log up to an event.
CREATE TABLE checkpoints (
    id             uuid PRIMARY KEY,
    -- Log; the nil id is the system log.
    intent_id      uuid NOT NULL,
    merkle_root    bytea NOT NULL,
    event_count    bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    -- The key (a did:key of `server_keys`), and its signature over all the other columns.
    signed_by      text NOT NULL,
    signature      text NOT NULL,
    -- An outside witness's receipt, as canonical JSON.
    anchor         text
);

-- Checkpoints of a log in their order, and how far the last one goes.
CREATE INDEX checkpoints_by_log ON checkpoints (intent_id, last_sequence, id);
