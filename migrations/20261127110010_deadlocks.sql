-- Deadlocks in force that are recorded: agents that wait for one another. A row goes with the end of its deadlock; the events
-- in the logs are its record.
CREATE TABLE deadlocks (
    -- SHA-256 of who waits for whom, for what kind of thing, on which intent: several servers find a deadlock once.
    fingerprint bytea PRIMARY KEY,
    id          uuid NOT NULL,
    agents      text[] NOT NULL,
    -- Intents whose logs have its event; the nil id is the system log.
    intents     uuid[] NOT NULL,
    found_at    timestamptz NOT NULL
);
