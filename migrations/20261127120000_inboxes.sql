-- Inboxes of agents: references to what reaches an agent (messages, envelopes, ends of jobs, decisions, tasks), with a level of
-- attention. One follower writes them behind the logs (crates/kernel/src/inbox); nothing is added to the transactions of
-- those who send. An agent without an open inbox has no rows here.
CREATE TABLE inboxes (
    agent_id      text PRIMARY KEY,
    -- Principal that opened it.
    opened_by     text NOT NULL,
    opened_at     timestamptz NOT NULL,
    -- JSON: quiet hours, levels, who may wake; as its agent sent it.
    settings      text NOT NULL,
    -- Where it begins: positions in the order over all logs and over the events of all jobs.
    begins_global bigint NOT NULL,
    begins_seq    bigint NOT NULL,
    begins_job    bigint NOT NULL,
    begins_job_seq bigint NOT NULL,
    -- Envelopes of the agent's mailbox that have an entry, by number.
    mail_seq      bigint NOT NULL,
    -- Place of the last entry: dense from 1.
    last_place    bigint NOT NULL DEFAULT 0,
    -- Number of the last ring of any entry.
    last_ring     bigint NOT NULL DEFAULT 0,
    -- Number of stored entries.
    entries       bigint NOT NULL DEFAULT 0,
    -- Number of entries that were evicted because the inbox was full.
    evicted       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

-- Entries of inboxes.
CREATE TABLE inbox_entries (
    agent_id       text NOT NULL,
    place          bigint NOT NULL,
    -- message, mail, job, decision or task; and what happened to it.
    kind           text NOT NULL,
    what           text NOT NULL,
    -- Id of the object, the intent that it belongs to, and the channel or thread.
    ref            text NOT NULL,
    intent_id      uuid,
    channel_id     uuid,
    -- Agent, entity or person that it comes from.
    sender         text,
    -- wake, next or digest; and whether it wakes in quiet hours too.
    attention      text NOT NULL,
    breaks_through boolean NOT NULL,
    at             timestamptz NOT NULL,
    -- With its message, and after a month at the latest.
    expires_at     timestamptz NOT NULL,
    -- When it rings next; null if it never does again.
    rings_at       timestamptz,
    -- How often it rang, and the number of the last time in the inbox.
    rings          integer NOT NULL DEFAULT 0,
    ring           bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, place)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Sweeps: entries that ring, and those that expire.
CREATE INDEX inbox_entries_by_ring ON inbox_entries (rings_at) WHERE rings_at IS NOT NULL;
CREATE INDEX inbox_entries_by_expiry ON inbox_entries (expires_at);
-- Entries of an inbox that rang after a position, and those that are armed, which its agent has seen.
CREATE INDEX inbox_entries_rung ON inbox_entries (agent_id, ring) WHERE ring > 0;
CREATE INDEX inbox_entries_armed ON inbox_entries (agent_id, place) WHERE rings_at IS NOT NULL;

-- Readers of inboxes, under names that the agents choose.
CREATE TABLE inbox_readers (
    agent_id  text NOT NULL,
    name      text NOT NULL,
    -- Place of the last entry that it has marked seen.
    place     bigint NOT NULL,
    -- Levels that it reads.
    levels    text[] NOT NULL,
    used_at   timestamptz NOT NULL,
    PRIMARY KEY (agent_id, name)
) WITH (fillfactor = 70);

-- Sweep: readers that are gone.
CREATE INDEX inbox_readers_by_use ON inbox_readers (used_at);

-- Position of the follower, in the order over all logs and over the events of all jobs; null while no inbox is open.
CREATE TABLE inbox_cursor (
    -- Allows one row only.
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    global     bigint,
    global_seq bigint,
    job        bigint,
    job_seq    bigint
);

INSERT INTO inbox_cursor (one) VALUES (true);
