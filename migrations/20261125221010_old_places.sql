-- What was written before has numbers in the order that it was read in, so every place of the form (transaction, log,
-- number) has an equal among the new ones: of streams, which clients hold, and of the server's own readers, which are
-- converted here. The columns with transaction ids stay for servers of the release before, which may still run and write.

-- Transaction ids from here on are of the time after this migration.
ALTER TABLE log_sequencer ADD COLUMN old_xids_end bigint;
UPDATE log_sequencer SET old_xids_end = pg_snapshot_xmax(pg_current_snapshot())::text::bigint;

-- A transaction wrote one part of each log, because it held the log's lock. Deleted messages leave gaps, which the next
-- part covers.
INSERT INTO log_order (global, intent_id, from_seq, to_seq, at, mark, old_xid)
SELECT row_number() OVER (ORDER BY xid, intent_id),
       intent_id, coalesce(lag(to_seq) OVER (PARTITION BY intent_id ORDER BY to_seq), 0) + 1, to_seq, at, 0, xid
FROM (SELECT xid, intent_id, max(seq) AS to_seq, max(at) AS at
      FROM (SELECT xid, intent_id, seq, created_at AS at FROM messages
            UNION ALL SELECT xid, intent_id, seq, created_at FROM events
            UNION ALL SELECT xid, intent_id, seq, at FROM receipts) entries
      GROUP BY xid, intent_id) parts;

INSERT INTO job_order (global, job_id, from_seq, to_seq, mark, old_xid)
SELECT row_number() OVER (ORDER BY xid, job_id),
       job_id, coalesce(lag(to_seq) OVER (PARTITION BY job_id ORDER BY to_seq), 0) + 1, to_seq, 0, xid
FROM (SELECT xid, job_id, max(job_seq) AS to_seq FROM job_events GROUP BY xid, job_id) parts;

INSERT INTO aee_bus_order (number, bus, envelope_id, mark)
SELECT row_number() OVER (ORDER BY xid, id), recipient, id, 0 FROM aee_envelopes
WHERE recipient LIKE 'bus.%' AND (status = 'accepted' OR agreed);

-- The new place with the same entries before it as an old one (`old`, `log`, `number`): after the last entry that its holder
-- has read. Places that a server of the release before gave after this migration are compared with entries of that time;
-- such a place may lead to one that is somewhat earlier, because the orders of concurrent transactions differ.
CREATE FUNCTION log_place(old bigint, log uuid, number bigint, OUT global bigint, OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT o.global, CASE WHEN (o.old_xid, o.intent_id) = (old, log) THEN greatest(number, o.from_seq - 1)
                          ELSE o.from_seq - 1 END
    INTO global, seq FROM log_order o
    WHERE o.old_xid IS NOT NULL AND (o.old_xid, o.intent_id, o.to_seq) > (old, log, number)
    ORDER BY o.old_xid, o.intent_id, o.to_seq LIMIT 1;
    IF NOT FOUND THEN
        SELECT o.global, o.to_seq INTO global, seq FROM log_order o
        WHERE o.old_xid IS NOT NULL ORDER BY o.old_xid DESC, o.intent_id DESC, o.to_seq DESC LIMIT 1;
        global := coalesce(global, 0);
        seq := coalesce(seq, 0);
        IF old >= (SELECT s.old_xids_end FROM log_sequencer s) THEN
            SELECT o.global, u.first - 1 INTO global, seq
            FROM log_order o CROSS JOIN LATERAL (
                SELECT min(e.seq) AS first FROM (
                    SELECT m.seq, m.xid FROM messages m WHERE m.intent_id = o.intent_id AND m.seq BETWEEN o.from_seq AND o.to_seq
                    UNION ALL SELECT m.seq, m.xid FROM events m WHERE m.intent_id = o.intent_id AND m.seq BETWEEN o.from_seq AND o.to_seq
                    UNION ALL SELECT m.seq, m.xid FROM receipts m WHERE m.intent_id = o.intent_id AND m.seq BETWEEN o.from_seq AND o.to_seq) e
                WHERE (e.xid, o.intent_id, e.seq) > (old, log, number)) u
            WHERE o.global > log_place.global AND u.first IS NOT NULL ORDER BY o.global LIMIT 1;
            IF NOT FOUND THEN
                SELECT o.global, o.to_seq INTO global, seq FROM log_order o ORDER BY o.global DESC LIMIT 1;
            END IF;
        END IF;
    END IF;
    global := coalesce(global, 0);
    seq := coalesce(seq, 0);
END $$;

-- The same for the events of jobs.
CREATE FUNCTION job_place(old bigint, job uuid, number bigint, OUT global bigint, OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT o.global, CASE WHEN (o.old_xid, o.job_id) = (old, job) THEN greatest(number, o.from_seq - 1)
                          ELSE o.from_seq - 1 END
    INTO global, seq FROM job_order o
    WHERE o.old_xid IS NOT NULL AND (o.old_xid, o.job_id, o.to_seq) > (old, job, number)
    ORDER BY o.old_xid, o.job_id, o.to_seq LIMIT 1;
    IF NOT FOUND THEN
        SELECT o.global, o.to_seq INTO global, seq FROM job_order o
        WHERE o.old_xid IS NOT NULL ORDER BY o.old_xid DESC, o.job_id DESC, o.to_seq DESC LIMIT 1;
        global := coalesce(global, 0);
        seq := coalesce(seq, 0);
        IF old >= (SELECT s.old_xids_end FROM log_sequencer s) THEN
            SELECT o.global, u.first - 1 INTO global, seq
            FROM job_order o CROSS JOIN LATERAL (
                SELECT min(e.job_seq) AS first FROM job_events e
                WHERE e.job_id = o.job_id AND e.job_seq BETWEEN o.from_seq AND o.to_seq
                  AND (e.xid, o.job_id, e.job_seq) > (old, job, number)) u
            WHERE o.global > job_place.global AND u.first IS NOT NULL ORDER BY o.global LIMIT 1;
            IF NOT FOUND THEN
                SELECT o.global, o.to_seq INTO global, seq FROM job_order o ORDER BY o.global DESC LIMIT 1;
            END IF;
        END IF;
    END IF;
    global := coalesce(global, 0);
    seq := coalesce(seq, 0);
END $$;

-- Number of the next event of the system log. Receivers, triggers and replays are recorded there, under its lock, by the
-- transaction that sets them up; so the place of that event is where they begin.
CREATE FUNCTION next_of_system() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT last_seq + 1 FROM intent_clock WHERE intent_id = '00000000-0000-0000-0000-000000000000'
$$;

-- Number of the last event that one of these transactions or an earlier one recorded in the system log.
CREATE FUNCTION system_at(old bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT seq FROM events WHERE intent_id = '00000000-0000-0000-0000-000000000000' AND xid <= old
                     ORDER BY seq DESC LIMIT 1), 0)
$$;

-- The endpoint receives what comes after this event of the system log.
ALTER TABLE webhook_endpoints ADD COLUMN hears_from bigint;
UPDATE webhook_endpoints SET hears_from = system_at(hears_after);
ALTER TABLE webhook_endpoints ALTER COLUMN hears_from SET DEFAULT next_of_system(), ALTER COLUMN hears_from SET NOT NULL;

-- The trigger matches what comes after this event of the system log.
ALTER TABLE triggers ADD COLUMN hears_from bigint;
UPDATE triggers SET hears_from = system_at(hears_after);
ALTER TABLE triggers ALTER COLUMN hears_from SET DEFAULT next_of_system(), ALTER COLUMN hears_from SET NOT NULL;

-- The position, in `log_order`: null like the columns before.
ALTER TABLE webhook_cursor ADD COLUMN global bigint, ADD COLUMN global_seq bigint;
UPDATE webhook_cursor SET (global, global_seq) = (SELECT p.global, p.seq FROM log_place(xid, intent_id, seq) p)
WHERE xid IS NOT NULL;
ALTER TABLE trigger_cursor ADD COLUMN global bigint, ADD COLUMN global_seq bigint;
UPDATE trigger_cursor SET (global, global_seq) = (SELECT p.global, p.seq FROM log_place(xid, intent_id, seq) p)
WHERE xid IS NOT NULL;

-- A replay ends before this event of the system log, from which on everything is delivered in any case.
ALTER TABLE webhook_replays ADD COLUMN global bigint, ADD COLUMN global_seq bigint, ADD COLUMN until_seq bigint;
UPDATE webhook_replays SET until_seq = system_at(until_xid);
UPDATE webhook_replays SET (global, global_seq) = (SELECT p.global, p.seq FROM log_place(xid, intent_id, seq) p)
WHERE xid IS NOT NULL;
ALTER TABLE webhook_replays ALTER COLUMN until_seq SET DEFAULT next_of_system(), ALTER COLUMN until_seq SET NOT NULL;

-- The position of a bridge in its bus: a number of `aee_bus_order`. `place` remains that in a mailbox or a channel.
CREATE FUNCTION bus_end() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(number), 0) FROM aee_bus_order
$$;
ALTER TABLE aee_bridges ADD COLUMN bus_place bigint;
UPDATE aee_bridges b SET bus_place = coalesce((
    SELECT max(o.number) FROM aee_bus_order o JOIN aee_envelopes e ON e.id = o.envelope_id
    WHERE o.bus = b.bus AND (e.xid, e.id) <= (b.place, b.place_id)), 0);
ALTER TABLE aee_bridges ALTER COLUMN bus_place SET DEFAULT bus_end(), ALTER COLUMN bus_place SET NOT NULL;
