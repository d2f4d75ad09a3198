-- Channels (RFC-0021 §1), where agents on one intent talk. The view `channel_states` needs `messages` too and is in the
-- file of that table.
CREATE TABLE channels (
    id            uuid PRIMARY KEY,
    intent_id     uuid NOT NULL REFERENCES intents (id),
    -- Any text: clients name tasks that this server does not know (OI-2.2).
    task_id       text,
    name          text NOT NULL,
    created_by    text NOT NULL,
    members       text[] NOT NULL,
    member_policy text NOT NULL CHECK (member_policy IN ('explicit', 'intent')),
    -- Options as the client gave them, unknown keys included (OI-2.1). The next three columns have their effect.
    given_options text,
    audit         boolean NOT NULL,
    ttl_seconds   integer,
    max_messages  integer NOT NULL,
    status        text NOT NULL CHECK (status IN ('open', 'closed')),
    created_at    timestamptz NOT NULL,
    closed_at     timestamptz,
    close_reason  text,
    -- A deleted channel is closed and hidden. Its row is deleted when its messages are purged.
    deleted_at    timestamptz,
    -- When the sweep may delete the messages: at once after a deletion, after the retention time of a closed channel, or
    -- never.
    purge_at      timestamptz,
    -- Number of messages ever sent, written when they are purged; until then the last message has it (`channel_states`).
    purged_count  bigint NOT NULL DEFAULT 0,
    -- When the sweep checks the time to live next. Sends do not move it, so that they stay cheap; a check that comes too
    -- early moves it to the actual end.
    ttl_check_at  timestamptz,
    -- Set by some of the sends that exceed `max_messages`, cleared by the sweep that evicts.
    over_limit    boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80);

-- A name is unique among an intent's open channels, so that it can be used again; also finds a channel by its name.
CREATE UNIQUE INDEX channels_open_name ON channels (intent_id, name) WHERE status = 'open';
-- Lists of an intent's channels.
CREATE INDEX channels_by_intent ON channels (intent_id, id);
-- Sweep: channels whose time to live is to be checked.
CREATE INDEX channels_by_ttl ON channels (ttl_check_at) WHERE status = 'open' AND ttl_check_at IS NOT NULL;
-- Sweep: channels that may exceed their limit.
CREATE INDEX channels_over_limit ON channels (id) WHERE over_limit;
-- Sweep: channels whose messages are to be purged.
CREATE INDEX channels_by_purge ON channels (purge_at) WHERE purge_at IS NOT NULL;
-- The end of a task closes the channels scoped to it.
CREATE INDEX channels_by_task ON channels (intent_id, task_id) WHERE status = 'open' AND task_id IS NOT NULL;
-- Channels of an agent that leaves.
CREATE INDEX channels_by_member ON channels USING gin (members);
