-- Block of 16 entries that the log's end lies in, in place of the segment of 256. While somebody holds a snapshot, an update
-- that finds its page full writes one more entry to the index, and each search walks those of its block: up to 16 instead
-- of 256, which took most of a write's time. The column `segment` stays for the release before, which names it. The table is
-- written anew once, about a second for each million of intents.
ALTER TABLE intent_clock ADD COLUMN block bigint NOT NULL GENERATED ALWAYS AS (last_seq / 16) STORED;
