-- Bundles of other servers (docs/wire/bundle.md, BN-5): records that are read and exported again, not intents of this server.
CREATE TABLE bundles (
    id          uuid PRIMARY KEY,
    imported_by text NOT NULL,
    imported_at timestamptz NOT NULL,
    -- When its lines may be deleted: a while after its arrival began, until it is whole; then none, until it is removed.
    gone_at     timestamptz,
    -- The rest is known once it is whole. SHA-256 of the file.
    digest      bytea,
    intent_id   uuid,
    exported_at timestamptz,
    exported_by text,
    -- Title of the intent.
    title       text,
    -- The key of the server that sealed it, as a did:key.
    signed_by   text,
    bytes       bigint,
    lines       integer,
    CHECK (gone_at IS NOT NULL OR num_nulls(digest, intent_id, exported_at, exported_by, title, signed_by, bytes, lines) = 0)
);

-- The same file is imported once.
CREATE UNIQUE INDEX bundles_by_digest ON bundles (digest) WHERE gone_at IS NULL;
-- The latest bundle of an intent.
CREATE INDEX bundles_by_intent ON bundles (intent_id, exported_at) WHERE gone_at IS NULL;
-- List of the bundles that are whole.
CREATE INDEX bundles_whole ON bundles (id) WHERE gone_at IS NULL;
-- Sweep.
CREATE INDEX bundles_gone ON bundles (gone_at) WHERE gone_at IS NOT NULL;

-- The lines of bundles, byte for byte.
CREATE TABLE bundle_lines (
    bundle_id uuid NOT NULL,
    -- From 1.
    number    integer NOT NULL,
    -- Kind of the line (BN-1.3), or `seal`.
    kind      text NOT NULL,
    -- Without the line feed at its end.
    line      text NOT NULL,
    PRIMARY KEY (bundle_id, number)
);

-- The lines of one kind.
CREATE INDEX bundle_lines_by_kind ON bundle_lines (bundle_id, kind, number);
