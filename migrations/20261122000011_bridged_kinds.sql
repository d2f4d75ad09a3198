-- What a bridge has carried has a kind: tasks have ids of their senders' choice, which may look like anything else's name.
ALTER TABLE aee_bridged
    ADD COLUMN what text NOT NULL DEFAULT 'letter' CHECK (what IN ('letter', 'event', 'message', 'made')),
    DROP CONSTRAINT aee_bridged_pkey,
    ADD PRIMARY KEY (bridge, what, source);
ALTER TABLE aee_bridged ALTER COLUMN what DROP DEFAULT;

-- A task to a bus that a person has agreed to goes to the bus then: `xid` is that transaction's.
ALTER TABLE aee_envelopes ADD COLUMN agreed boolean NOT NULL DEFAULT false;

DROP INDEX aee_envelopes_on_buses;
CREATE INDEX aee_envelopes_on_buses ON aee_envelopes (recipient, xid, id)
    WHERE recipient LIKE 'bus.%' AND (status = 'accepted' OR agreed);

-- Of which version a schema is, so that a change has only what was changed read again.
ALTER TABLE aee_schemas ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE aee_schemas ALTER COLUMN version DROP DEFAULT;
