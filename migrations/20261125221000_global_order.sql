-- One order over the logs of all intents, over the events of all jobs, and over the envelopes to buses, in numbers of
-- Entente's own (docs/adr/0016-numbers-of-our-own.md). A write leaves a mark in its own transaction; `log_sequence` turns
-- the marks of committed transactions into dense numbers. Nothing here depends on transaction ids, so the order survives
-- a dump, logical replication and other transactions that stay open.

-- Marks: what was committed and has no number yet. Ids are given under the lock of what is marked and before the commit, so
-- they follow each log and every cause. Rows leave as fast as they come; dead ones are vacuumed early and without delay.
CREATE TABLE log_unsequenced (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Intent whose log, or job whose events now end at `last_seq`.
    intent_id   uuid,
    job_id      uuid,
    last_seq    bigint,
    -- Time of the log's last entry.
    last_at     timestamptz,
    -- Envelope that was sent to a bus.
    envelope_id text,
    bus         text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Buses with something new, for bridges.
CREATE INDEX log_unsequenced_by_bus ON log_unsequenced (bus) WHERE bus IS NOT NULL;

-- The row that a sequencing server locks. It is never updated, so no version of it is ever dead.
CREATE TABLE log_sequencer (
    -- Allows one row only.
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);

INSERT INTO log_sequencer (one) VALUES (true);

-- The order of all logs: a part of one log for each number. Rows are only inserted.
CREATE TABLE log_order (
    -- Dense from 1.
    global    bigint PRIMARY KEY,
    intent_id uuid NOT NULL,
    -- Entries of the log, which begin right after the part before.
    from_seq  bigint NOT NULL,
    to_seq    bigint NOT NULL,
    -- Time of the last entry: replays search by it.
    at        timestamptz NOT NULL,
    -- Highest mark that was taken with it: where the search for further marks begins.
    mark      bigint NOT NULL,
    -- Transaction that wrote it, of entries before this migration: their places had the form (transaction, intent, number),
    -- and clients still send them.
    old_xid   bigint
);

-- The part that has an entry of a log, and the end of what has a number in it.
CREATE UNIQUE INDEX log_order_by_intent ON log_order (intent_id, to_seq);
-- Places of the form before.
CREATE INDEX log_order_by_xid ON log_order (old_xid, intent_id, to_seq) WHERE old_xid IS NOT NULL;

-- The order of the events of all jobs, like `log_order`.
CREATE TABLE job_order (
    global   bigint PRIMARY KEY,
    job_id   uuid NOT NULL,
    from_seq bigint NOT NULL,
    to_seq   bigint NOT NULL,
    mark     bigint NOT NULL,
    old_xid  bigint
);

CREATE UNIQUE INDEX job_order_by_job ON job_order (job_id, to_seq);
CREATE INDEX job_order_by_xid ON job_order (old_xid, job_id, to_seq) WHERE old_xid IS NOT NULL;

-- The order of the envelopes to buses, for bridges. Rows are deleted with their envelopes.
CREATE TABLE aee_bus_order (
    number      bigint PRIMARY KEY,
    bus         text NOT NULL,
    envelope_id text NOT NULL,
    mark        bigint NOT NULL
);

CREATE INDEX aee_bus_order_by_bus ON aee_bus_order (bus, number);
CREATE INDEX aee_bus_order_by_envelope ON aee_bus_order (envelope_id);

-- Marks the logs that a statement has advanced, whichever statement and release it is of.
CREATE FUNCTION mark_logs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_unsequenced (intent_id, last_seq, last_at)
    SELECT intent_id, last_seq, last_at FROM advanced WHERE last_seq > 0;
    RETURN NULL;
END $$;

CREATE TRIGGER mark_new_logs AFTER INSERT ON intent_clock
    REFERENCING NEW TABLE AS advanced FOR EACH STATEMENT EXECUTE FUNCTION mark_logs();
CREATE TRIGGER mark_logs AFTER UPDATE ON intent_clock
    REFERENCING NEW TABLE AS advanced FOR EACH STATEMENT EXECUTE FUNCTION mark_logs();

-- The same for the events of jobs, which job_events numbers densely in each job.
CREATE FUNCTION mark_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_unsequenced (job_id, last_seq) SELECT job_id, max(job_seq) FROM inserted GROUP BY job_id ORDER BY job_id;
    RETURN NULL;
END $$;

CREATE TRIGGER mark_jobs AFTER INSERT ON job_events
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION mark_jobs();

-- The same for envelopes to a bus: when they are accepted, or when a person approved them. Few envelopes go to a bus, so
-- the conditions are tested without a call.
CREATE FUNCTION mark_envelope() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log_unsequenced (envelope_id, bus) VALUES (NEW.id, NEW.recipient);
    RETURN NULL;
END $$;

CREATE TRIGGER mark_sent AFTER INSERT ON aee_envelopes FOR EACH ROW
    WHEN (NEW.recipient LIKE 'bus.%' AND (NEW.status = 'accepted' OR NEW.agreed)) EXECUTE FUNCTION mark_envelope();
CREATE TRIGGER mark_approved AFTER UPDATE OF agreed ON aee_envelopes FOR EACH ROW
    WHEN (NEW.recipient LIKE 'bus.%' AND NEW.agreed AND NOT OLD.agreed) EXECUTE FUNCTION mark_envelope();

-- Gives numbers to what is committed and marked, and returns the ends of the three orders. It must be a transaction of its
-- own: then everything with a number is committed, and what gets a number later comes after it.
--
-- One server at a time takes marks, under a row lock that lasts for one statement. Each statement in here has a snapshot of
-- its own (VOLATILE, READ COMMITTED), so after the wait for the lock it sees what the server before has done. Marks are
-- taken in the order of their ids: what was caused by something has a higher one. Neighbouring marks of one log become
-- one row, and a mark that an earlier row covers is dropped, so a repeated or late mark does no harm.
--
-- `low` is the mark after which to search; null for the recent ones. Vacuum cannot remove taken marks while somebody holds
-- a snapshot, so a search from the beginning would take ever longer; a transaction that commits later than 1,024 younger
-- ones is found by the next wide search.
CREATE FUNCTION log_sequence(low bigint, OUT log_end bigint, OUT log_seq bigint, OUT job_end bigint, OUT job_seq bigint,
                             OUT bus_end bigint, OUT last_mark bigint, OUT is_more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    high   bigint;
    first  bigint;
    number bigint;
    taken  bigint := 0;
    one    record;
    -- The row to insert next.
    logs   log_order;
    jobs   job_order;
BEGIN
    last_mark := (SELECT last_value FROM log_unsequenced_id_seq);
    high := greatest((SELECT o.mark FROM log_order o ORDER BY o.global DESC LIMIT 1),
                     (SELECT o.mark FROM job_order o ORDER BY o.global DESC LIMIT 1),
                     (SELECT o.mark FROM aee_bus_order o ORDER BY o.number DESC LIMIT 1), 0);
    -- The count of marks starts anew where a replica takes over; numbers and marks that it received may be higher.
    low := coalesce(low, least(high, last_mark) - 1024);
    first := (SELECT u.id FROM log_unsequenced u WHERE u.id > low ORDER BY u.id LIMIT 1);
    IF first IS NOT NULL THEN
        PERFORM 1 FROM log_sequencer FOR UPDATE;
        FOR one IN
            WITH marks AS (
                DELETE FROM log_unsequenced WHERE id = ANY (ARRAY(
                    SELECT u.id FROM log_unsequenced u WHERE u.id >= first ORDER BY u.id LIMIT 4096))
                RETURNING id, intent_id, job_id, last_seq, last_at, envelope_id, bus)
            SELECT * FROM marks m ORDER BY m.id
        LOOP
            taken := taken + 1;
            high := greatest(high, one.id);
            IF one.intent_id IS NOT NULL THEN
                IF logs.intent_id IS DISTINCT FROM one.intent_id THEN
                    IF logs.to_seq >= logs.from_seq THEN
                        INSERT INTO log_order SELECT logs.*;
                        number := logs.global;
                    ELSE
                        number := coalesce(logs.global - 1, (SELECT max(o.global) FROM log_order o), 0);
                    END IF;
                    logs.global := number + 1;
                    logs.intent_id := one.intent_id;
                    logs.to_seq := coalesce((SELECT max(o.to_seq) FROM log_order o WHERE o.intent_id = one.intent_id), 0);
                    logs.from_seq := logs.to_seq + 1;
                    logs.at := one.last_at;
                END IF;
                logs.to_seq := greatest(logs.to_seq, one.last_seq);
                logs.at := greatest(logs.at, one.last_at);
                logs.mark := high;
            ELSIF one.job_id IS NOT NULL THEN
                IF jobs.job_id IS DISTINCT FROM one.job_id THEN
                    IF jobs.to_seq >= jobs.from_seq THEN
                        INSERT INTO job_order SELECT jobs.*;
                        number := jobs.global;
                    ELSE
                        number := coalesce(jobs.global - 1, (SELECT max(o.global) FROM job_order o), 0);
                    END IF;
                    jobs.global := number + 1;
                    jobs.job_id := one.job_id;
                    jobs.to_seq := coalesce((SELECT max(o.to_seq) FROM job_order o WHERE o.job_id = one.job_id), 0);
                    jobs.from_seq := jobs.to_seq + 1;
                END IF;
                jobs.to_seq := greatest(jobs.to_seq, one.last_seq);
                jobs.mark := high;
            ELSIF NOT EXISTS (SELECT 1 FROM aee_bus_order o WHERE o.envelope_id = one.envelope_id) THEN
                INSERT INTO aee_bus_order (number, bus, envelope_id, mark)
                VALUES (coalesce((SELECT max(o.number) FROM aee_bus_order o), 0) + 1, one.bus, one.envelope_id, high);
            END IF;
        END LOOP;
        IF logs.to_seq >= logs.from_seq THEN
            INSERT INTO log_order SELECT logs.*;
        END IF;
        IF jobs.to_seq >= jobs.from_seq THEN
            INSERT INTO job_order SELECT jobs.*;
        END IF;
    END IF;
    is_more := taken = 4096;
    SELECT o.global, o.to_seq INTO log_end, log_seq FROM log_order o ORDER BY o.global DESC LIMIT 1;
    SELECT o.global, o.to_seq INTO job_end, job_seq FROM job_order o ORDER BY o.global DESC LIMIT 1;
    bus_end := (SELECT o.number FROM aee_bus_order o ORDER BY o.number DESC LIMIT 1);
    log_end := coalesce(log_end, 0);
    log_seq := coalesce(log_seq, 0);
    job_end := coalesce(job_end, 0);
    job_seq := coalesce(job_seq, 0);
    bus_end := coalesce(bus_end, 0);
END $$;
