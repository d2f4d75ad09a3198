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
    -- Words by which everybody finds the source who may see it.
    words     tsvector NOT NULL,
    -- Of a job with an input: these, and the words of its input, by which only its own principal finds it.
    own_words tsvector,
    PRIMARY KEY (source_id, seq)
);

-- Searches for words.
CREATE INDEX search_documents_words ON search_documents USING gin (words);
CREATE INDEX search_documents_own_words ON search_documents USING gin (own_words) WHERE own_words IS NOT NULL;
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

-- The follower's position, while there is something behind it.
CREATE VIEW search_backlog AS
SELECT p.* FROM search_position p
WHERE EXISTS (SELECT 1 FROM (SELECT o.global, o.to_seq FROM log_order o ORDER BY o.global DESC LIMIT 1) l
              WHERE (l.global, l.to_seq) > (p.global, p.global_seq))
   OR EXISTS (SELECT 1 FROM (SELECT o.global, o.to_seq FROM job_order o ORDER BY o.global DESC LIMIT 1) l
              WHERE (l.global, l.to_seq) > (p.job_global, p.job_seq))
   OR EXISTS (SELECT 1 FROM jobs j WHERE j.id > p.job_id);
