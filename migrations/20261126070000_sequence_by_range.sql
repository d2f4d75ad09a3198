-- `log_sequence` as before, at two thirds of its cost: marks are removed as a range instead of one by one, and numbered where
-- they come from instead of by way of arrays. While much is committed, a server calls it twenty times a second.

-- Gives numbers to what is committed and marked, and returns the ends of the three orders. It must be a transaction of its
-- own: then everything with a number is committed, and what gets a number later comes after it.
--
-- One server at a time takes marks, under a row lock that lasts for one statement. Each statement in here has a snapshot of
-- its own (VOLATILE, READ COMMITTED), so after the wait for the lock it sees what the server before has done. Parts are
-- numbered in the order of their marks: what was caused by something has a higher one. Neighbouring marks of one log become
-- one part, and a mark that an earlier part covers is dropped, so a repeated or late mark does no harm.
--
-- `low` is the mark after which to search; null for the recent ones. Vacuum cannot remove taken marks while somebody holds
-- a snapshot, so a search from the beginning would take ever longer; a transaction that commits later than 1,024 younger
-- ones is found by the next wide search.
CREATE OR REPLACE FUNCTION log_sequence(low bigint, OUT log_end bigint, OUT log_seq bigint, OUT job_end bigint,
                                        OUT job_seq bigint, OUT bus_end bigint, OUT last_mark bigint, OUT is_more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    high  bigint;
    first bigint;
    upto  bigint;
    taken bigint := 0;
    -- The taken marks of jobs, and of envelopes to buses, in the order of their ids.
    jobs    uuid[];
    job_seqs bigint[];
    envelopes text[];
    buses   text[];
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
        upto := (SELECT max(m.id) FROM (SELECT u.id FROM log_unsequenced u WHERE u.id >= first
                                        ORDER BY u.id LIMIT 4096) m);
        WITH marks AS (
            DELETE FROM log_unsequenced u WHERE u.id >= first AND u.id <= upto
            RETURNING u.id, u.intent_id, u.job_id, u.last_seq, u.last_at, u.envelope_id, u.bus),
        logs AS (
            INSERT INTO log_order (global, intent_id, from_seq, to_seq, at, mark)
            SELECT coalesce((SELECT max(o.global) FROM log_order o), 0) + row_number() OVER (ORDER BY p.id),
                   p.intent_id, p.before + 1, p.last_seq, p.last_at, greatest(high, upto)
            FROM (SELECT s.id, s.intent_id, s.last_seq, s.last_at,
                         -- A late mark follows the mark before it here, but what is stored may be ahead of both.
                         greatest(s.earlier, max(s.stored) OVER (PARTITION BY s.intent_id)) AS before
                  FROM (SELECT e.*, CASE WHEN e.earlier IS NULL THEN
                            coalesce((SELECT max(o.to_seq) FROM log_order o WHERE o.intent_id = e.intent_id), 0)
                            END AS stored
                        FROM (SELECT n.*, lag(n.last_seq) OVER (PARTITION BY n.intent_id ORDER BY n.id) AS earlier
                              FROM (SELECT m.id, m.intent_id, m.last_seq, m.last_at,
                                           m.intent_id IS DISTINCT FROM lead(m.intent_id) OVER (ORDER BY m.id) AS ends
                                    FROM marks m WHERE m.intent_id IS NOT NULL) n
                              WHERE n.ends) e) s) p
            WHERE p.last_seq > p.before)
        SELECT count(*), greatest(high, max(m.id)),
               array_agg(m.job_id ORDER BY m.id) FILTER (WHERE m.job_id IS NOT NULL),
               array_agg(m.last_seq ORDER BY m.id) FILTER (WHERE m.job_id IS NOT NULL),
               array_agg(m.envelope_id ORDER BY m.id) FILTER (WHERE m.envelope_id IS NOT NULL),
               array_agg(m.bus ORDER BY m.id) FILTER (WHERE m.envelope_id IS NOT NULL)
        INTO taken, high, jobs, job_seqs, envelopes, buses
        FROM marks m;
        IF jobs IS NOT NULL THEN
            INSERT INTO job_order (global, job_id, from_seq, to_seq, mark)
            SELECT coalesce((SELECT max(o.global) FROM job_order o), 0) + row_number() OVER (ORDER BY p.run),
                   p.job_id, p.before + 1, p.to_seq, high
            FROM (SELECT s.run, s.job_id, s.to_seq,
                         greatest(max(s.stored) OVER (PARTITION BY s.job_id),
                                  max(s.to_seq) OVER (PARTITION BY s.job_id ORDER BY s.run
                                                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS before
                  FROM (SELECT r.*, CASE WHEN lag(r.run) OVER (PARTITION BY r.job_id ORDER BY r.run) IS NULL THEN
                            coalesce((SELECT max(o.to_seq) FROM job_order o WHERE o.job_id = r.job_id), 0)
                            END AS stored
                        FROM (SELECT n.run, n.job_id, max(n.last_seq) AS to_seq
                              FROM (SELECT m.*, count(*) FILTER (WHERE m.begins) OVER (ORDER BY m.place) AS run
                                    FROM (SELECT l.*, l.job_id IS DISTINCT FROM lag(l.job_id) OVER (ORDER BY l.place)
                                                      AS begins
                                          FROM unnest(jobs, job_seqs) WITH ORDINALITY AS l (job_id, last_seq, place)) m) n
                              GROUP BY n.run, n.job_id) r) s) p
            WHERE p.to_seq > p.before;
        END IF;
        IF envelopes IS NOT NULL THEN
            INSERT INTO aee_bus_order (number, bus, envelope_id, mark)
            SELECT coalesce((SELECT max(o.number) FROM aee_bus_order o), 0) + row_number() OVER (ORDER BY n.place),
                   n.bus, n.envelope_id, high
            FROM (SELECT DISTINCT ON (m.envelope_id) m.*
                  FROM unnest(envelopes, buses) WITH ORDINALITY AS m (envelope_id, bus, place)
                  ORDER BY m.envelope_id, m.place) n
            WHERE NOT EXISTS (SELECT 1 FROM aee_bus_order o WHERE o.envelope_id = n.envelope_id);
        END IF;
    END IF;
    is_more := taken >= 4096;
    SELECT o.global, o.to_seq INTO log_end, log_seq FROM log_order o ORDER BY o.global DESC LIMIT 1;
    SELECT o.global, o.to_seq INTO job_end, job_seq FROM job_order o ORDER BY o.global DESC LIMIT 1;
    bus_end := (SELECT o.number FROM aee_bus_order o ORDER BY o.number DESC LIMIT 1);
    log_end := coalesce(log_end, 0);
    log_seq := coalesce(log_seq, 0);
    job_end := coalesce(job_end, 0);
    job_seq := coalesce(job_seq, 0);
    bus_end := coalesce(bus_end, 0);
END $$;
