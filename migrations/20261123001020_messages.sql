-- Messages of channels (RFC-0021 §2), receipts for them, and the messages that still wait; with the views that show
-- channels and messages in their present state.

-- Messages as they were sent: a row is written once and never updated. Later events of a message are receipts.
-- Evicted rows are vacuumed early.
CREATE TABLE messages (
    channel_id     uuid NOT NULL,
    -- Number in the channel, from 1 without gaps. The message's id contains it, so ids are looked up by this key.
    number         bigint NOT NULL,
    id             uuid NOT NULL,
    intent_id      uuid NOT NULL,
    -- Number in the intent's log, shared with events and receipts.
    seq            bigint NOT NULL,
    sender         text NOT NULL,
    -- Address as given: an agent, `role:…`, `*`, or null for no particular recipient.
    recipient      text,
    -- Agents that the address resolved to when the message was sent; null for everybody.
    recipients     text[],
    message_type   text NOT NULL,
    -- Request that the message answers.
    correlation_id uuid,
    -- The sender's own text, validated once.
    payload        text NOT NULL,
    metadata       text,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    -- Writing transaction: orders the records of all intents (ARCHITECTURE.md, "One order").
    xid            bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (channel_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- The intent's log, in its order.
CREATE UNIQUE INDEX messages_line ON messages (intent_id, seq);
-- Readers of all intents: streams, webhooks.
CREATE INDEX messages_by_xid ON messages (xid);
-- Responses to a request.
CREATE INDEX messages_by_correlation ON messages (channel_id, correlation_id) WHERE correlation_id IS NOT NULL;

-- Receipts: events of a message after it was sent. Written once.
CREATE TABLE receipts (
    channel_id uuid NOT NULL,
    number     bigint NOT NULL,
    message_id uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('read', 'expired')),
    -- Reader; empty for an expiry.
    agent_id   text NOT NULL,
    intent_id  uuid NOT NULL,
    -- Number in the intent's log, shared with events and messages.
    seq        bigint NOT NULL,
    at         timestamptz NOT NULL,
    -- Writing transaction, as in `messages`.
    xid        bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- A message is read once by each agent, and expires once.
    PRIMARY KEY (channel_id, number, kind, agent_id)
);

-- The intent's log, in its order.
CREATE UNIQUE INDEX receipts_line ON receipts (intent_id, seq);
-- Readers of all intents: streams, webhooks.
CREATE INDEX receipts_by_xid ON receipts (xid);

-- Messages that still wait: a request for its response, any message for its expiry. The table is small, because rows leave
-- it as fast as they come; it finds due messages and waiting agents without reading `messages`. Dead rows are vacuumed
-- early and without delay.
CREATE TABLE pending (
    channel_id uuid NOT NULL,
    number     bigint NOT NULL,
    message_id uuid NOT NULL,
    intent_id  uuid NOT NULL,
    -- The message is a request; its response deletes the row.
    is_request boolean NOT NULL,
    sender     text NOT NULL,
    -- The recipient, if the message is for one agent only.
    agent_id   text,
    expires_at timestamptz,
    PRIMARY KEY (channel_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- A resolved intent expires its waiting messages.
CREATE INDEX pending_by_intent ON pending (intent_id);
-- Sweep: messages to expire.
CREATE INDEX pending_by_expiry ON pending (expires_at) WHERE expires_at IS NOT NULL;
-- An agent that leaves expires the requests that wait for it.
CREATE INDEX pending_by_agent ON pending (agent_id) WHERE agent_id IS NOT NULL AND is_request;

-- Channels with the number of messages they have had and the time of the last one. Both come from the last message, so
-- that a send does not write to its channel.
CREATE VIEW channel_states AS
SELECT c.id, c.intent_id, c.task_id, c.name, c.created_by, c.members, c.member_policy, c.given_options, c.audit,
       c.ttl_seconds, c.max_messages, c.status, c.created_at, c.closed_at, c.deleted_at,
       coalesce(l.number, c.purged_count) AS message_count, l.created_at AS last_message_at
FROM channels c
LEFT JOIN LATERAL (
    SELECT m.number, m.created_at FROM messages m WHERE m.channel_id = c.id ORDER BY m.number DESC LIMIT 1) l ON true;

-- Messages with their receipts: when a message was first read, whether its expiry was recorded, and whether it still waits
-- for an expiry, which may have passed already (only a clock can tell).
CREATE VIEW message_states AS
SELECT m.channel_id, m.number, m.id, m.intent_id, m.seq, m.sender, m.recipient, m.recipients, m.message_type,
       m.correlation_id, m.payload, m.metadata, m.created_at, m.expires_at, m.xid, r.read_at, r.expired,
       CASE WHEN m.expires_at IS NULL THEN false ELSE EXISTS (
           SELECT 1 FROM pending p WHERE p.channel_id = m.channel_id AND p.number = m.number) END AS waits
FROM messages m
CROSS JOIN LATERAL (
    SELECT min(at) FILTER (WHERE kind = 'read') AS read_at, coalesce(bool_or(kind = 'expired'), false) AS expired
    FROM receipts r WHERE r.channel_id = m.channel_id AND r.number = m.number) r;
