-- Bridges between envelopes, jobs and messages, set up by explicit configuration.

-- Bridges, each with its source, its position there, and the powers that it acts with.
CREATE TABLE aee_bridges (
    name       text PRIMARY KEY,
    -- The configuration, as JSON.
    bridge     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    -- Key that set the bridge up, or that it was rotated to: the bridge may do no more than this key.
    key_id     uuid NOT NULL,
    -- Agent that the key acts as.
    agent      text NOT NULL,
    -- Source: a mailbox, a bus, or a channel of an intent.
    entity     text,
    bus        text,
    channel_id uuid,
    -- Position up to which everything was processed: the number in the mailbox or the channel; for a bus the transaction, and
    -- the envelope's id in it.
    place      bigint NOT NULL,
    place_id   text NOT NULL DEFAULT '',
    -- Part of the derived ids of its envelopes, shown to nobody: otherwise others could take these ids first.
    salt       bytea NOT NULL,
    -- Why it is paused, if it is.
    problem    text,
    CHECK (num_nonnulls(entity, bus, channel_id) = 1)
);

-- Items that bridges have carried: each source once, whichever process dies in between.
CREATE TABLE aee_bridged (
    bridge text NOT NULL,
    -- Kind of the source. Senders choose the ids of envelopes, which may imitate those of another kind.
    what   text NOT NULL CHECK (what IN ('letter', 'event', 'message', 'made')),
    source text NOT NULL,
    target text NOT NULL,
    at     timestamptz NOT NULL,
    -- For a task that became a job: the job, the last of its events that was reported, and whether more may follow. For a
    -- mirrored task without a job: whether its answer is to be shown.
    job_id uuid,
    told   bigint NOT NULL DEFAULT 0,
    open   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (bridge, what, source)
);

-- Whether a bridge made an envelope: no bridge carries the output of another.
CREATE INDEX aee_bridged_by_target ON aee_bridged (target);
-- Tasks whose jobs have events to report.
CREATE INDEX aee_bridged_open ON aee_bridged (bridge, source) WHERE open;
-- Sweep: records after the retention time of envelopes.
CREATE INDEX aee_bridged_by_age ON aee_bridged (at) WHERE NOT open;
