-- Segment of 256 entries that the log's end lies in. While somebody holds a snapshot, no earlier version of a row goes away,
-- and a search by the intent walks over all of them; by the intent and the segment, over those of one segment. Entries
-- within a segment still update the row in place (HOT), because the value stays. The table is written anew once, about a
-- second for each million of intents.
ALTER TABLE intent_clock ADD COLUMN segment bigint NOT NULL GENERATED ALWAYS AS (last_seq / 256) STORED;
