-- Retention of events (docs/adr/0019-events-leave-their-hashes.md): the oldest events of a log are deleted once a checkpoint
-- vouches for them. Their ids and hashes stay, so proofs and checkpoints hold as before.

-- Hashes of deleted events: the first leaves of a log's Merkle tree. A row is what one transaction deleted, and the rows of
-- a log follow each other from 1.
CREATE TABLE event_leaves (
    intent_id      uuid NOT NULL,
    -- Numbers of the first and the last of them in the hash chain.
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    -- 16 bytes for each id and 32 for each hash, one after another.
    ids            bytea NOT NULL,
    hashes         bytea NOT NULL,
    PRIMARY KEY (intent_id, first_sequence)
);

-- Hashes do not get smaller by compression.
ALTER TABLE event_leaves ALTER COLUMN ids SET STORAGE EXTERNAL, ALTER COLUMN hashes SET STORAGE EXTERNAL;

-- Beginning of each log of which events were deleted: its last deleted event.
CREATE TABLE log_floors (
    intent_id uuid PRIMARY KEY,
    -- Number in the log, in the hash chain, and in `log_order`.
    seq       bigint NOT NULL,
    sequence  bigint NOT NULL,
    global    bigint NOT NULL,
    -- The intent as the deleted events made it, as JSON: the remaining ones change it. Null for the system log.
    intent    text
);

-- Position up to which a reader of everything may have missed events.
CREATE INDEX log_floors_by_global ON log_floors (global);

-- Retention has deleted everything that this checkpoint allows.
ALTER TABLE checkpoints ADD COLUMN spent boolean NOT NULL DEFAULT false;
