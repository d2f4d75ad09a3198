-- Checkpoints of logs (RFC-0019), and the keys that servers sign them with.

CREATE TABLE server_keys (
    -- The public key as a did:key, as it stands in what it signed.
    did        text PRIMARY KEY,
    -- The secret half, of the one key that the servers made themselves. Null for a key from ENTENTE_SIGNING_KEY, which
    -- the database never sees.
    seed       bytea,
    created_at timestamptz NOT NULL
);

-- At most one key is kept here, however many servers start at once.
CREATE UNIQUE INDEX server_keys_one_kept ON server_keys ((true)) WHERE seed IS NOT NULL;

CREATE TABLE checkpoints (
    id             uuid PRIMARY KEY,
    -- The nil id is the house's own log.
    intent_id      uuid NOT NULL,
    merkle_root    bytea NOT NULL,
    event_count    bigint NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    -- The key, and its signature over all the other columns.
    signed_by      text NOT NULL,
    signature      text NOT NULL,
    -- Canonical JSON: what an outside witness said of it.
    anchor         text
);

-- A log's checkpoints in their order, and how far the last one goes.
CREATE INDEX checkpoints_by_log ON checkpoints (intent_id, last_sequence, id);
