-- What servers want from each other. A server of an earlier release leaves these columns empty.

-- The shards of the wake-ups that it wants, a bit each (`crates/kernel/src/wakeups/interest.rs`); empty for a server that
-- is woken for everything, on one channel.
ALTER TABLE nodes ADD COLUMN interest bigint;

-- Where other servers reach it with commands for intents that it owns; empty if they cannot.
ALTER TABLE nodes ADD COLUMN peer_url text;
