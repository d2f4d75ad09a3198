-- Federation (RFC-0022, RFC-0023): our intents at peers, peers' intents here, and the messages on their way to peers. Peers
-- themselves are configured, and are named here by their DID.

-- Dispatches: our intents at peers.
CREATE TABLE federation_dispatches (
    id               uuid PRIMARY KEY,
    intent_id        uuid NOT NULL REFERENCES intents (id),
    peer             text NOT NULL,
    -- URL of the peer at that time, as the client was told.
    target_server    text NOT NULL,
    -- Requested agent of the peer.
    agent_id         text,
    requested_by     text NOT NULL,
    state            text NOT NULL
        CHECK (state IN ('pending', 'accepted', 'rejected', 'dead', 'completed', 'failed')),
    -- The peer's id of its copy.
    remote_intent_id text,
    -- Latest news of it, as text.
    message          text NOT NULL,
    -- Callbacks received. They are events of the intent, so their number is limited.
    callbacks        integer NOT NULL,
    created_at       timestamptz NOT NULL,
    -- Time of the latest news.
    heard_at         timestamptz NOT NULL,
    ended_at         timestamptz
) WITH (fillfactor = 70);

-- Dispatches of an intent.
CREATE INDEX federation_dispatches_by_intent ON federation_dispatches (intent_id, id);
-- Number of an agent's dispatches.
CREATE INDEX federation_dispatches_by_agent ON federation_dispatches (requested_by);
-- Number of a peer's open dispatches, which is limited.
CREATE INDEX federation_dispatches_open ON federation_dispatches (peer) WHERE ended_at IS NULL;
-- Sweep: dispatches without news for too long.
CREATE INDEX federation_dispatches_silent ON federation_dispatches (heard_at) WHERE ended_at IS NULL;
-- Sweep: ended dispatches after their retention time.
CREATE INDEX federation_dispatches_ended ON federation_dispatches (ended_at) WHERE ended_at IS NOT NULL;

-- Keys of received callbacks, so that each callback counts once.
CREATE TABLE federation_callbacks (
    dispatch_id uuid NOT NULL REFERENCES federation_dispatches (id) ON DELETE CASCADE,
    -- The peer's idempotency key, or a digest of the callback.
    key         text NOT NULL,
    PRIMARY KEY (dispatch_id, key)
);

-- Deliveries: peers' intents here.
CREATE TABLE federation_deliveries (
    peer              text NOT NULL,
    -- The peer's id of its dispatch.
    dispatch_id       text NOT NULL,
    -- SHA-256 of the delivered intent: the same one is answered alike, another one under this id is refused.
    fingerprint       bytea NOT NULL,
    -- Null if the delivery was rejected.
    local_intent_id   uuid REFERENCES intents (id),
    message           text NOT NULL,
    agent_id          text,
    callback_url      text,
    -- JSON: limits that came with the intent, for an agent that dispatches it further.
    delegation_scope  text,
    federation_policy text,
    trace_id          text,
    -- Number in the intent's log up to which events were reported to the peer.
    reported_seq      bigint NOT NULL,
    -- Callbacks sent to the peer, which accepts a limited number.
    callbacks         integer NOT NULL,
    created_at        timestamptz NOT NULL,
    -- When the intent was last examined because its log had grown.
    told_at           timestamptz NOT NULL,
    -- When nothing more was to be reported.
    ended_at          timestamptz,
    PRIMARY KEY (peer, dispatch_id)
) WITH (fillfactor = 70);

-- An intent here comes from one delivery at most.
CREATE UNIQUE INDEX federation_deliveries_by_intent ON federation_deliveries (local_intent_id)
    WHERE local_intent_id IS NOT NULL;
-- Number of deliveries for an agent.
CREATE INDEX federation_deliveries_by_agent ON federation_deliveries (agent_id) WHERE agent_id IS NOT NULL;
-- Deliveries with something to report, and the number of a peer's open ones, which is limited.
CREATE INDEX federation_deliveries_open ON federation_deliveries (peer, local_intent_id) WHERE ended_at IS NULL;
-- Sweep: reporting that ends because the intent has been inactive for too long.
CREATE INDEX federation_deliveries_silent ON federation_deliveries (told_at) WHERE ended_at IS NULL;
-- Sweep: rejected deliveries after their retention time. Accepted ones stay with their intents.
CREATE INDEX federation_deliveries_rejected ON federation_deliveries (ended_at) WHERE local_intent_id IS NULL;
-- Number of a peer's rejected deliveries in a day, which is limited.
CREATE INDEX federation_deliveries_rejected_by_peer ON federation_deliveries (peer, ended_at) WHERE local_intent_id IS NULL;

-- Outbox of messages to peers: a message is written in the transaction that promises it, and deleted when it was delivered
-- or given up.
CREATE TABLE federation_letters (
    -- Order of the messages: those of one dispatch are sent one after another.
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    peer        text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('dispatch', 'callback')),
    -- Our id of a dispatch; the peer's id for a callback.
    dispatch_id text NOT NULL,
    -- The dispatched intent; null for a callback.
    intent_id   uuid,
    -- Target of a callback; null for a dispatch, which goes to the configured address of the peer.
    url         text,
    -- JSON, without the time and the signature, which each attempt adds.
    body        text NOT NULL,
    attempts    integer NOT NULL,
    due_at      timestamptz NOT NULL,
    created_at  timestamptz NOT NULL
) WITH (fillfactor = 70);

-- Due messages to a peer.
CREATE INDEX federation_letters_due ON federation_letters (peer, due_at);
-- Messages of a dispatch in their order.
CREATE INDEX federation_letters_order ON federation_letters (peer, kind, dispatch_id, id);
-- Sweep: undeliverable messages.
CREATE INDEX federation_letters_old ON federation_letters (created_at);
