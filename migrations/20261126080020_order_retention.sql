-- Numbers of `log_order` whose entries are all deleted are deleted too (docs/adr/0019-events-leave-their-hashes.md).

-- Position of the search for numbers of `log_order` without entries, which begins anew every day.
CREATE TABLE log_order_search (
    -- Allows one row only.
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Number up to which was searched; 0 between two searches.
    global   bigint NOT NULL,
    -- When the last search ended; null before the first one.
    ended_at timestamptz
);

INSERT INTO log_order_search (one, global, ended_at) VALUES (true, 0, NULL);

-- Numbers that nothing needs: no entry of their part of a log is left, it is not the log's last one, because the next part
-- begins after it, and no receiver, trigger or replay begins or ends there. Each row is tested by itself, with indexes.
CREATE VIEW log_order_empty AS
SELECT o.global, o.at FROM log_order o
WHERE (SELECT max(n.to_seq) FROM log_order n WHERE n.intent_id = o.intent_id) > o.to_seq
  AND (SELECT e.seq FROM events e WHERE e.intent_id = o.intent_id AND e.seq BETWEEN o.from_seq AND o.to_seq LIMIT 1) IS NULL
  AND (SELECT m.seq FROM messages m WHERE m.intent_id = o.intent_id AND m.seq BETWEEN o.from_seq AND o.to_seq LIMIT 1) IS NULL
  AND (SELECT r.seq FROM receipts r WHERE r.intent_id = o.intent_id AND r.seq BETWEEN o.from_seq AND o.to_seq LIMIT 1) IS NULL
  AND (o.intent_id <> '00000000-0000-0000-0000-000000000000' OR (
      SELECT s.seq FROM (SELECT hears_from AS seq FROM webhook_endpoints
                         UNION ALL SELECT hears_from FROM triggers
                         UNION ALL SELECT until_seq FROM webhook_replays) s
      WHERE s.seq BETWEEN o.from_seq AND o.to_seq LIMIT 1) IS NULL);
