-- Messages by day and sender, for charts: counted by the follower of loops (crates/kernel/src/loops), behind the senders.
CREATE TABLE message_days (
    -- Day in UTC.
    day      date NOT NULL,
    sender   text NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (day, sender)
) WITH (fillfactor = 70);
