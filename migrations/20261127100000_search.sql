-- Search by words. Nothing here is written when a message, an event or a job is: one server at a time follows the orders of
-- what is committed (`log_order`, `job_order`) and adds documents.

-- Documents: the words of messages, events and jobs. A row is deleted with its source, by triggers.
CREATE TABLE search_documents (
    -- The intent whose log has the entry (nil: the system log), and the entry's number in it. Of a job: its own id, and 0.
    source_id uuid NOT NULL,
    seq       bigint NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('message', 'event', 'job')),
    -- The intent that the source belongs to; null: none.
    intent_id uuid,
    -- Time of the entry, or when the job was accepted: results come in the order of (at, source_id, seq), newest first.
    at        timestamptz NOT NULL,
    -- Words with weight A may be found by everybody who may see the source, others by the job's own principal only.
    words     tsvector NOT NULL,
    PRIMARY KEY (source_id, seq)
);

-- Searches for words.
CREATE INDEX search_documents_words ON search_documents USING gin (words);
-- Searches for words that most documents have: newest first until the page is full.
CREATE INDEX search_documents_by_time ON search_documents (at, source_id, seq);

-- Position of the follower.
CREATE TABLE search_position (
    -- Allows one row only.
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Position in `log_order`.
    global      bigint NOT NULL DEFAULT 0,
    global_seq  bigint NOT NULL DEFAULT 0,
    -- Everything committed in logs before this time is indexed; null: nothing is known.
    logs_until  timestamptz,
    -- Position in `job_order`, from which errors of jobs are read.
    job_global  bigint NOT NULL DEFAULT 0,
    job_seq     bigint NOT NULL DEFAULT 0,
    -- Highest id of an indexed job. One with a lower id may be committed later.
    job_id      uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- Up to this id, jobs that were committed late are indexed too.
    settled_id  uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- Every job accepted before this time is indexed; null: nothing is known.
    jobs_until  timestamptz
);

INSERT INTO search_position (one) VALUES (true);
