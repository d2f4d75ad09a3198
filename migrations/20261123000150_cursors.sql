-- Positions in what agents read, kept under short names that the agents choose: an agent that sends the name continues where
-- it was, on every server and after a restart. An agent has 100 of them at most; one that is unused for 30 days is deleted.
CREATE TABLE reading_cursors (
    -- Principal of the key, and the agent that it acts as: another principal with the same agent has its own positions.
    principal_id text NOT NULL,
    agent_id     text NOT NULL,
    -- What is read: `events`, `channel <id>` or `mailbox <entity>`.
    subject      text NOT NULL,
    name         text NOT NULL,
    -- Number of the last answer under this name, from 1.
    answer       bigint NOT NULL,
    -- Position where the last answer begins, null for the beginning: an answer that was lost is read again from here.
    began        text,
    -- Position after the last answer: the next one begins here.
    ended        text NOT NULL,
    used_at      timestamptz NOT NULL,
    CONSTRAINT reading_cursors_once PRIMARY KEY (principal_id, agent_id, subject, name)
);

-- Sweep: cursors that are unused.
CREATE INDEX reading_cursors_by_use ON reading_cursors (used_at);
