-- Bridges: from where each carries, how far it is, and with whose powers. What is carried is `bridge`, JSON.

ALTER TABLE aee_bridges
    -- The key that set it up, or one that this was rotated to: what that may not, the bridge may not.
    ADD COLUMN key_id uuid NOT NULL,
    -- As whom that key acts.
    ADD COLUMN agent text NOT NULL,
    -- From where: a mailbox, a bus or a channel of an intent.
    ADD COLUMN entity text,
    ADD COLUMN bus text,
    ADD COLUMN channel_id uuid,
    -- Everything up to here was dealt with: the number in the mailbox or the channel; of a bus the transaction, and in it
    -- the envelope's id.
    ADD COLUMN place bigint NOT NULL,
    ADD COLUMN place_id text NOT NULL DEFAULT '',
    -- Part of what its envelopes' ids are made of. Nobody is shown it.
    ADD COLUMN salt bytea NOT NULL,
    -- Why it rests, when it does.
    ADD COLUMN problem text,
    ADD CHECK (num_nonnulls(entity, bus, channel_id) = 1);

ALTER TABLE aee_bridged
    -- Of a task that became a job: the job, up to which of its events was told, and whether more may come.
    ADD COLUMN job_id uuid,
    ADD COLUMN told bigint NOT NULL DEFAULT 0,
    ADD COLUMN open boolean NOT NULL DEFAULT false;

CREATE INDEX aee_bridged_open ON aee_bridged (bridge, source) WHERE open;
CREATE INDEX aee_bridged_by_age ON aee_bridged (at) WHERE NOT open;

-- What was sent to a bus has no number there. It is read in the order of transactions, below the oldest one still under way.
ALTER TABLE aee_envelopes ADD COLUMN xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;

CREATE INDEX aee_envelopes_on_buses ON aee_envelopes (recipient, xid, id)
    WHERE recipient LIKE 'bus.%' AND status = 'accepted';
