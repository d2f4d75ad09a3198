-- Channels and messages (RFC-0021).

CREATE TABLE channels (
    id              uuid PRIMARY KEY,
    intent_id       uuid NOT NULL REFERENCES intents (id),
    -- Any text: clients name tasks that Entente does not know (contract 10.1).
    task_id         text,
    name            text NOT NULL,
    created_by      text NOT NULL,
    members         text[] NOT NULL,
    member_policy   text NOT NULL CHECK (member_policy IN ('explicit', 'intent')),
    -- As the client gave them, unknown keys included; what they come to stands in the next three columns.
    given_options   text,
    audit           boolean NOT NULL,
    ttl_seconds     integer,
    max_messages    integer NOT NULL,
    status          text NOT NULL CHECK (status IN ('open', 'closed')),
    created_at      timestamptz NOT NULL,
    closed_at       timestamptz,
    close_reason    text,
    -- A deleted channel is closed and no longer found; it goes for good when its messages are purged.
    deleted_at      timestamptz,
    -- When the sweep may take its messages away: at once when deleted, after the retention when closed, or never.
    purge_at        timestamptz,
    -- Messages ever sent, once they were purged; until then it is the last one's number, see channel_states.
    purged_count    bigint NOT NULL DEFAULT 0,
    -- When the sweep looks at the time to live next. Sends do not move it, so that they stay cheap; a look that comes
    -- too early sets it to the true end.
    ttl_check_at    timestamptz,
    -- Set by some of the sends that go over max_messages, cleared by the sweep that evicts.
    over_limit      boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX channels_open_name ON channels (intent_id, name) WHERE status = 'open';
CREATE INDEX channels_by_intent ON channels (intent_id, id);
CREATE INDEX channels_by_ttl ON channels (ttl_check_at) WHERE status = 'open' AND ttl_check_at IS NOT NULL;
CREATE INDEX channels_over_limit ON channels (id) WHERE over_limit;
CREATE INDEX channels_by_purge ON channels (purge_at) WHERE purge_at IS NOT NULL;
CREATE INDEX channels_by_task ON channels (intent_id, task_id) WHERE status = 'open' AND task_id IS NOT NULL;
CREATE INDEX channels_by_member ON channels USING gin (members);

-- Written once, never updated; what happens to a message later is a receipt.
CREATE TABLE messages (
    channel_id     uuid NOT NULL,
    -- Number in the channel, from 1 without gaps. The message's id carries it, so ids are looked up by this key.
    number         bigint NOT NULL,
    id             uuid NOT NULL,
    intent_id      uuid NOT NULL,
    -- Place in the intent's line, shared with events and receipts.
    seq            bigint NOT NULL,
    sender         text NOT NULL,
    recipient      text,
    -- Whom the address came to when the message was sent; null for everybody.
    recipients     text[],
    message_type   text NOT NULL,
    correlation_id uuid,
    -- The sender's own text, validated once.
    payload        text NOT NULL,
    metadata       text,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    xid            bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (channel_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX messages_line ON messages (intent_id, seq);
CREATE INDEX messages_by_xid ON messages (xid);
CREATE INDEX messages_by_correlation ON messages (channel_id, correlation_id) WHERE correlation_id IS NOT NULL;

-- What happened to messages: read by whom, or expired.
CREATE TABLE receipts (
    channel_id uuid NOT NULL,
    number     bigint NOT NULL,
    message_id uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('read', 'expired')),
    -- Empty for an expiry.
    agent_id   text NOT NULL,
    intent_id  uuid NOT NULL,
    seq        bigint NOT NULL,
    at         timestamptz NOT NULL,
    xid        bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (channel_id, number, kind, agent_id)
);

CREATE UNIQUE INDEX receipts_line ON receipts (intent_id, seq);
CREATE INDEX receipts_by_xid ON receipts (xid);

-- Messages that still wait for something: a request for its response, any message for its expiry. A small table that
-- rows leave as fast as they come; it answers "what is due" and "who waits for whom" without looking at messages.
CREATE TABLE pending (
    channel_id uuid NOT NULL,
    number     bigint NOT NULL,
    message_id uuid NOT NULL,
    intent_id  uuid NOT NULL,
    -- It is a request, and its response ends the waiting.
    is_request boolean NOT NULL,
    sender     text NOT NULL,
    -- The one agent it is for, if it is for one.
    agent_id   text,
    expires_at timestamptz,
    PRIMARY KEY (channel_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX pending_by_intent ON pending (intent_id);
CREATE INDEX pending_by_expiry ON pending (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX pending_by_agent ON pending (agent_id) WHERE agent_id IS NOT NULL AND is_request;

-- A channel with how many messages it has had and when the last one was sent. Derived from that last one, so that a send
-- need not write to its channel.
CREATE VIEW channel_states AS
SELECT c.id, c.intent_id, c.task_id, c.name, c.created_by, c.members, c.member_policy, c.given_options, c.audit,
       c.ttl_seconds, c.max_messages, c.status, c.created_at, c.closed_at, c.deleted_at,
       coalesce(l.number, c.purged_count) AS message_count, l.created_at AS last_message_at
FROM channels c
LEFT JOIN LATERAL (
    SELECT m.number, m.created_at FROM messages m WHERE m.channel_id = c.id ORDER BY m.number DESC LIMIT 1) l ON true;

-- A message with what has happened to it: when it was first read, whether it was written down as expired, and whether
-- it still waits for an expiry that may already have come (which only a clock can tell).
CREATE VIEW message_states AS
SELECT m.channel_id, m.number, m.id, m.intent_id, m.seq, m.sender, m.recipient, m.recipients, m.message_type,
       m.correlation_id, m.payload, m.metadata, m.created_at, m.expires_at, m.xid, r.read_at, r.expired,
       CASE WHEN m.expires_at IS NULL THEN false ELSE EXISTS (
           SELECT 1 FROM pending p WHERE p.channel_id = m.channel_id AND p.number = m.number) END AS waits
FROM messages m
CROSS JOIN LATERAL (
    SELECT min(at) FILTER (WHERE kind = 'read') AS read_at, coalesce(bool_or(kind = 'expired'), false) AS expired
    FROM receipts r WHERE r.channel_id = m.channel_id AND r.number = m.number) r;
