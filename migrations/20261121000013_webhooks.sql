-- Webhooks: subscriptions (RFC-0006), agents' endpoints (RFC-0016), what is delivered to them (RFC-0021 §2.4.3).
-- Nothing is written for them when something happens: messages, events and receipts are the outbox, and webhook_cursor
-- is how far it has been read.

CREATE TABLE webhook_endpoints (
    id               uuid PRIMARY KEY,
    kind             text NOT NULL CHECK (kind IN ('subscription', 'agent')),
    principal_id     text NOT NULL,
    -- Whom it sees as, by the powers of this key or of one that it was rotated to: when none of them is in force, nothing
    -- is sent.
    agent_id         text NOT NULL,
    key_id           uuid NOT NULL,
    intent_id        uuid,
    channel_id       uuid,
    event_types      text[] NOT NULL,
    -- Null: it exists and is sent nothing, as the SDK makes some.
    url              text,
    signature        text NOT NULL CHECK (signature IN ('v1', 'v1a')),
    -- In clear: what signs must be known to who signs. No list and no log has it.
    secret           text NOT NULL,
    old_secret       text,
    old_secret_until timestamptz,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz,
    disabled_at      timestamptz,
    disabled_reason  text,
    -- Out of sight at once; the sweep takes its deliveries away step by step and then the row.
    removed_at       timestamptz,
    -- It hears what later transactions write than the one that made it, or enabled it again.
    hears_after      bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);

CREATE INDEX webhook_endpoints_by_owner ON webhook_endpoints (principal_id, id) WHERE removed_at IS NULL;
CREATE UNIQUE INDEX webhook_endpoints_of_agent ON webhook_endpoints (agent_id) WHERE kind = 'agent' AND removed_at IS NULL;
CREATE INDEX webhook_endpoints_by_end ON webhook_endpoints (expires_at) WHERE removed_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX webhook_endpoints_removed ON webhook_endpoints (removed_at) WHERE removed_at IS NOT NULL;

-- An endpoint's key is followed through its rotations.
CREATE INDEX keys_by_rotation ON keys (rotated_from) WHERE rotated_from IS NOT NULL;

-- One row: the place among all lines up to which everything was handed to the endpoints (ARCHITECTURE.md, "One order").
CREATE TABLE webhook_cursor (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Null while there is nobody to hand anything to: then nothing is read, and the next endpoint begins with itself.
    xid       bigint,
    intent_id uuid,
    seq       bigint,
    -- When it last moved: first attempts become due in the order of the log, whatever servers' clocks say.
    moved_at  timestamptz
);

INSERT INTO webhook_cursor VALUES (true, NULL, NULL, NULL, NULL);

-- What is sent, once for all who get it: its message may be evicted before its receiver can be reached.
CREATE TABLE webhook_bodies (
    -- evt_…, msg_…, rcpt_…, ping_…: the header webhook-id, the same on every attempt, server and replay.
    webhook_id text PRIMARY KEY,
    type       text NOT NULL,
    body       text NOT NULL,
    -- Where it is told; null for a ping.
    intent_id  uuid,
    seq        bigint,
    channel_id uuid,
    trace_id   text,
    created_at timestamptz NOT NULL
);

CREATE INDEX webhook_bodies_by_age ON webhook_bodies (created_at);

CREATE TABLE webhook_deliveries (
    -- Handed out by one fan-out at a time: within an endpoint this is the order of the log.
    id              bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    endpoint_id     uuid NOT NULL,
    webhook_id      text NOT NULL,
    status          text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'delivered', 'failed', 'dropped')),
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    -- In this order it also finds who is still to get a body.
    CONSTRAINT webhook_deliveries_once UNIQUE (webhook_id, endpoint_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at, id) WHERE status = 'waiting';
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE webhook_attempts (
    id          uuid NOT NULL,
    delivery_id bigint NOT NULL,
    at          timestamptz NOT NULL,
    -- The receiver's answer; null when there was none, and then error says why.
    status      integer,
    error       text,
    millis      integer NOT NULL,
    response    text,
    PRIMARY KEY (delivery_id, id)
);

-- One row per endpoint that was ever sent anything: whose shift it is, and how it has been doing.
CREATE TABLE webhook_shifts (
    endpoint_id     uuid PRIMARY KEY,
    -- When it has something due; null when nothing waits or it is disabled.
    due_at          timestamptz,
    -- One server at a time sends to it, so that its deliveries keep their order. Nothing is held over the network but
    -- this; a server that dies loses it by time.
    claimed_by      uuid,
    claimed_until   timestamptz,
    -- Rises with each claim: who lost its shift writes nothing any more.
    fence           bigint NOT NULL DEFAULT 0,
    -- It is left alone until then, because it failed.
    paused_until    timestamptz,
    failures        integer NOT NULL DEFAULT 0,
    failing_since   timestamptz,
    last_error      text,
    last_error_at   timestamptz,
    last_success_at timestamptz
) WITH (fillfactor = 70);

CREATE INDEX webhook_shifts_due ON webhook_shifts (due_at) WHERE due_at IS NOT NULL;

-- Endpoints whose past is handed out again, and how far that has come. A time is looked for among transactions, because
-- that is the order in which the lines are read.
CREATE TABLE webhook_replays (
    endpoint_id uuid PRIMARY KEY,
    since       timestamptz NOT NULL,
    -- Null: where it begins was not looked for yet.
    xid         bigint,
    intent_id   uuid,
    seq         bigint,
    -- What this and later transactions write is handed out anyway.
    until_xid   bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);
