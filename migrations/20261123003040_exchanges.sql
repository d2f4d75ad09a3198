-- Exchanges (AEE §4): a task, and one entity that is expected to answer it.
CREATE TABLE aee_pairs (
    task_id    text NOT NULL,
    respondent text NOT NULL,
    asker      text NOT NULL,
    corr       text NOT NULL,
    -- As last written; the deadline takes effect at once.
    status     text NOT NULL CHECK (status IN ('held', 'open', 'closed', 'timed_out')),
    deadline   timestamptz,
    -- Envelope that closed it.
    ended_by   text,
    created_at timestamptz NOT NULL,
    -- Decision of a person on a held task, with the reason (AEE §3, `requires.human_approval`). `approver` is not written:
    -- a setting names the one person who may decide, if the operator wants one.
    approver   text,
    decided_by text,
    decided_at timestamptz,
    reason     text,
    PRIMARY KEY (task_id, respondent)
) WITH (fillfactor = 80);

-- Sweep: exchanges that time out.
CREATE INDEX aee_pairs_due ON aee_pairs (deadline) WHERE status IN ('open', 'held') AND deadline IS NOT NULL;
-- Tasks that wait for approval, oldest first.
CREATE INDEX aee_pairs_held ON aee_pairs (created_at, task_id) WHERE status = 'held';
