-- Federation (RFC-0022, RFC-0023): intents that peers work on, intents of peers that are worked on here, and what is on its way
-- to peers. Peers themselves are configured, and stand here by their DID.

-- Our intents at peers.
CREATE TABLE federation_dispatches (
    id               uuid PRIMARY KEY,
    intent_id        uuid NOT NULL REFERENCES intents (id),
    peer             text NOT NULL,
    -- The peer's URL at that time, as its client was told.
    target_server    text NOT NULL,
    -- Which of the peer's agents was asked for.
    agent_id         text,
    requested_by     text NOT NULL,
    state            text NOT NULL
        CHECK (state IN ('pending', 'accepted', 'rejected', 'dead', 'completed', 'failed')),
    -- The peer's own id of its copy.
    remote_intent_id text,
    -- The last that was heard of it, in words.
    message          text NOT NULL,
    -- Callbacks that were heard: they are events of the intent, and so there is a most.
    callbacks        integer NOT NULL,
    created_at       timestamptz NOT NULL,
    -- When anything was last heard of it.
    heard_at         timestamptz NOT NULL,
    ended_at         timestamptz
) WITH (fillfactor = 70);
CREATE INDEX federation_dispatches_by_intent ON federation_dispatches (intent_id, id);
CREATE INDEX federation_dispatches_by_agent ON federation_dispatches (requested_by);
CREATE INDEX federation_dispatches_open ON federation_dispatches (peer) WHERE ended_at IS NULL;
CREATE INDEX federation_dispatches_silent ON federation_dispatches (heard_at) WHERE ended_at IS NULL;
CREATE INDEX federation_dispatches_ended ON federation_dispatches (ended_at) WHERE ended_at IS NOT NULL;

-- Callbacks that were heard, so that each is heard once.
CREATE TABLE federation_callbacks (
    dispatch_id uuid NOT NULL REFERENCES federation_dispatches (id) ON DELETE CASCADE,
    -- The peer's idempotency key, or a digest of what was told.
    key         text NOT NULL,
    PRIMARY KEY (dispatch_id, key)
);

-- Peers' intents here.
CREATE TABLE federation_deliveries (
    peer              text NOT NULL,
    -- The peer's own id of its dispatch.
    dispatch_id       text NOT NULL,
    -- SHA-256 of what was delivered: the same is answered alike, anything else under this id is refused.
    fingerprint       bytea NOT NULL,
    -- Null when it was not taken.
    local_intent_id   uuid REFERENCES intents (id),
    message           text NOT NULL,
    agent_id          text,
    callback_url      text,
    -- JSON: what came along, for whoever passes the intent on.
    delegation_scope  text,
    federation_policy text,
    trace_id          text,
    -- The number in the intent's line up to which the peer was told of what happened.
    reported_seq      bigint NOT NULL,
    -- Callbacks that were written to the peer: it hears only so many.
    callbacks         integer NOT NULL,
    created_at        timestamptz NOT NULL,
    -- When the intent was last looked at because something had happened to it.
    told_at           timestamptz NOT NULL,
    -- When there was nothing more to tell.
    ended_at          timestamptz,
    PRIMARY KEY (peer, dispatch_id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX federation_deliveries_by_intent ON federation_deliveries (local_intent_id)
    WHERE local_intent_id IS NOT NULL;
CREATE INDEX federation_deliveries_by_agent ON federation_deliveries (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX federation_deliveries_open ON federation_deliveries (peer, local_intent_id) WHERE ended_at IS NULL;
CREATE INDEX federation_deliveries_silent ON federation_deliveries (told_at) WHERE ended_at IS NULL;
-- Those that were rejected are forgotten, and only so many come in a day. Those that were taken stay with their intents.
CREATE INDEX federation_deliveries_rejected ON federation_deliveries (ended_at) WHERE local_intent_id IS NULL;
CREATE INDEX federation_deliveries_rejected_by_peer ON federation_deliveries (peer, ended_at) WHERE local_intent_id IS NULL;

-- What is on its way to peers: written in the transaction that promises it, gone when it has arrived or was given up.
CREATE TABLE federation_letters (
    -- Their order: letters of one dispatch are written one after the other.
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    peer        text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('dispatch', 'callback')),
    -- Ours of a dispatch, the peer's own of a callback.
    dispatch_id text NOT NULL,
    -- The intent that was dispatched; null for a callback.
    intent_id   uuid,
    -- Where a callback goes; null for a dispatch, which goes where the peer is configured to be.
    url         text,
    -- JSON, without the time and the signature that each attempt gives it.
    body        text NOT NULL,
    attempts    integer NOT NULL,
    due_at      timestamptz NOT NULL,
    created_at  timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX federation_letters_due ON federation_letters (peer, due_at);
-- The letters of one dispatch go one after the other.
CREATE INDEX federation_letters_order ON federation_letters (peer, kind, dispatch_id, id);
CREATE INDEX federation_letters_old ON federation_letters (created_at);
