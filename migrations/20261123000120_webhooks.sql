-- Webhooks: subscriptions (RFC-0006), agents' endpoints (RFC-0016), mailboxes' receivers (AEE §5), and the deliveries to
-- them (RFC-0021 §2.4.3). Nothing is written for a receiver when something happens on an intent: messages, events and
-- receipts are the outbox, and `webhook_cursor` is the position up to which it was read
-- (docs/adr/0004-the-log-is-the-outbox.md).

-- Receivers of webhooks. A removed one is hidden at once; the sweep deletes its deliveries step by step and then the row.
CREATE TABLE webhook_endpoints (
    id               uuid PRIMARY KEY,
    kind             text NOT NULL CHECK (kind IN ('subscription', 'agent', 'mailbox')),
    principal_id     text NOT NULL,
    -- The receiver sees what this agent sees, with the powers of `key_id` or of a key that it was rotated to. If none of
    -- them is in force, nothing is sent. For a mailbox it names the entity that owns the mailbox.
    agent_id         text NOT NULL,
    key_id           uuid NOT NULL,
    -- Restrictions of a subscription; a portfolio stands for the intents in it.
    intent_id        uuid,
    channel_id       uuid,
    portfolio_id     uuid,
    -- Globs with `*`; empty for all types.
    event_types      text[] NOT NULL,
    -- Null: the endpoint exists and nothing is sent to it; the SDK makes such subscriptions.
    url              text,
    signature        text NOT NULL CHECK (signature IN ('v1', 'v1a')),
    -- In clear, because the signer must know it. No list and no log shows it.
    secret           text NOT NULL,
    -- Earlier secret, which signs as well until its end.
    old_secret       text,
    old_secret_until timestamptz,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz,
    disabled_at      timestamptz,
    disabled_reason  text,
    removed_at       timestamptz,
    -- The endpoint receives the records of later transactions than the one that created or re-enabled it.
    hears_after      bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);

-- Lists of an owner's endpoints.
CREATE INDEX webhook_endpoints_by_owner ON webhook_endpoints (principal_id, id) WHERE removed_at IS NULL;
-- An agent record has one endpoint.
CREATE UNIQUE INDEX webhook_endpoints_of_agent ON webhook_endpoints (agent_id) WHERE kind = 'agent' AND removed_at IS NULL;
-- Receivers of the mailboxes that an envelope was put into: queued in the same transaction.
CREATE INDEX webhook_endpoints_of_mailbox ON webhook_endpoints (agent_id) WHERE kind = 'mailbox' AND removed_at IS NULL;
-- Sweep: expired endpoints.
CREATE INDEX webhook_endpoints_by_end ON webhook_endpoints (expires_at) WHERE removed_at IS NULL AND expires_at IS NOT NULL;
-- Sweep: removed endpoints.
CREATE INDEX webhook_endpoints_removed ON webhook_endpoints (removed_at) WHERE removed_at IS NOT NULL;

-- Position among all logs up to which records were queued for the endpoints (ARCHITECTURE.md, "One order").
CREATE TABLE webhook_cursor (
    -- Allows one row only.
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Null while there are no endpoints: then nothing is read, and the next endpoint starts from its own creation.
    xid       bigint,
    intent_id uuid,
    seq       bigint,
    -- When the cursor last moved: first attempts become due in the order of the log, regardless of servers' clocks.
    moved_at  timestamptz
);

INSERT INTO webhook_cursor (one, xid, intent_id, seq, moved_at) VALUES (true, NULL, NULL, NULL, NULL);

-- Bodies of webhooks, one for all receivers. They are copies, because a message may be evicted before its receiver can be
-- reached.
CREATE TABLE webhook_bodies (
    -- evt_…, msg_…, rcpt_…, ping_…: the header webhook-id, the same on every attempt, server and replay.
    webhook_id text PRIMARY KEY,
    type       text NOT NULL,
    body       text NOT NULL,
    -- Log that has the record, and its number there; null for a ping.
    intent_id  uuid,
    seq        bigint,
    channel_id uuid,
    trace_id   text,
    created_at timestamptz NOT NULL
);

-- Sweep: bodies without deliveries.
CREATE INDEX webhook_bodies_by_age ON webhook_bodies (created_at);

-- Deliveries: one body for one endpoint. Rows come and go quickly, so they are vacuumed early.
CREATE TABLE webhook_deliveries (
    -- Assigned by one fan-out at a time, so within an endpoint this is the order of the log.
    id              bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    endpoint_id     uuid NOT NULL,
    webhook_id      text NOT NULL,
    status          text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'delivered', 'failed', 'dropped')),
    attempts        integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,
    finished_at     timestamptz,
    -- Each body is queued once for an endpoint. In this order of columns it also finds the deliveries of a body.
    CONSTRAINT webhook_deliveries_once UNIQUE (webhook_id, endpoint_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- An endpoint's due deliveries.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at, id) WHERE status = 'waiting';
-- Lists of an endpoint's deliveries, and their deletion with the endpoint.
CREATE INDEX webhook_deliveries_log ON webhook_deliveries (endpoint_id, id);
-- Sweep: finished deliveries after their retention.
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries (finished_at) WHERE finished_at IS NOT NULL;

-- Attempts of deliveries.
CREATE TABLE webhook_attempts (
    id          uuid NOT NULL,
    delivery_id bigint NOT NULL,
    at          timestamptz NOT NULL,
    -- HTTP status of the answer; null if there was none, and then `error` says why.
    status      integer,
    error       text,
    millis      integer NOT NULL,
    response    text,
    PRIMARY KEY (delivery_id, id)
);

-- Endpoint leases: which server sends to an endpoint, and how the endpoint has been doing. One row for each endpoint that
-- was ever sent anything.
CREATE TABLE webhook_shifts (
    endpoint_id     uuid PRIMARY KEY,
    -- When the endpoint has a due delivery; null if none waits or the endpoint is disabled.
    due_at          timestamptz,
    -- One server at a time sends to an endpoint, so that deliveries keep their order. No transaction stays open during a
    -- request; the lease of a server that dies expires.
    claimed_by      uuid,
    claimed_until   timestamptz,
    -- Fencing token, raised by each claim: a server that lost its lease writes nothing any more.
    fence           bigint NOT NULL DEFAULT 0,
    -- Nothing is sent before this time, because attempts failed.
    paused_until    timestamptz,
    -- Failures in a row, and since when.
    failures        integer NOT NULL DEFAULT 0,
    failing_since   timestamptz,
    last_error      text,
    last_error_at   timestamptz,
    last_success_at timestamptz
) WITH (fillfactor = 70);

-- Endpoints to claim, longest due first.
CREATE INDEX webhook_shifts_due ON webhook_shifts (due_at) WHERE due_at IS NOT NULL;

-- Replays in progress: an endpoint's past records, delivered again, and the position that was reached.
CREATE TABLE webhook_replays (
    endpoint_id uuid PRIMARY KEY,
    -- Time from which records are delivered again. The start is searched among transactions, because logs are read in
    -- their order.
    since       timestamptz NOT NULL,
    -- Null until the start is found.
    xid         bigint,
    intent_id   uuid,
    seq         bigint,
    -- Records of this and later transactions are delivered in any case.
    until_xid   bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);
