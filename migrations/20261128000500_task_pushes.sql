-- Receivers of the updates of a job's A2A task (A2A §4.3): its events are the outbox, and a receiver has its place in them.
CREATE TABLE task_pushes (
    job_id        uuid NOT NULL,
    -- Name within the job, by the client.
    id            text NOT NULL,
    -- The key it was made with: what the key may no longer see is not sent.
    key_id        uuid NOT NULL,
    principal_id  text NOT NULL,
    agent_id      text NOT NULL,
    -- Context of the task.
    context       text NOT NULL,
    url           text NOT NULL,
    token         text,
    scheme        text,
    credentials   text,
    created_at    timestamptz NOT NULL,
    -- Number of the last event that was sent, and the state that the receiver was told with it.
    position      bigint NOT NULL,
    told          text NOT NULL,
    -- When the next update may be sent; none once the end was.
    due_at        timestamptz,
    -- Failures in a row, since when, and the last one.
    failures      integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    last_error    text,
    -- The server that sends, and its fencing token.
    claimed_by    uuid,
    claimed_until timestamptz,
    fence         bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, id)
);

-- Receivers of tasks that are not over.
CREATE INDEX task_pushes_due ON task_pushes (due_at) WHERE due_at IS NOT NULL;
