-- Jobs (ARCP §7): requests, their course, and their events.

-- Requests for jobs, as submitted. A row never changes, except that an idempotency key is cleared after its window.
CREATE TABLE jobs (
    id              uuid PRIMARY KEY,
    -- `name@version`, fixed once it was resolved (§7.5).
    agent           text NOT NULL,
    principal       text NOT NULL,
    session_id      uuid NOT NULL,
    -- Whether the session has a row in `sessions`, and numbers the events of all its jobs; otherwise it has this job only,
    -- and the job's numbers are the session's.
    counted         boolean NOT NULL,
    -- JSON texts are stored as received.
    input           text,
    -- Permissions and budget, and the end of the permissions.
    lease           text NOT NULL,
    expires_at      timestamptz,
    -- When the job times out.
    deadline        timestamptz,
    idempotency_key text,
    fingerprint     bytea NOT NULL,
    -- Job that delegated this one, the delegation's name, and the number of ancestors.
    parent_id       uuid,
    delegate_id     text,
    generation      integer NOT NULL,
    -- Jobs whose budgets pay its costs: those with a budget among its ancestors and itself, the eldest first.
    payers          uuid[] NOT NULL,
    trace_id        text NOT NULL,
    intent_id       uuid,
    needs_model     boolean NOT NULL,
    on_lost         text NOT NULL,
    max_attempts    integer NOT NULL,
    created_at      timestamptz NOT NULL
);

-- A principal uses a key for one job, also with two requests at once (§7.2).
CREATE UNIQUE INDEX jobs_by_key ON jobs (principal, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- Sweep: keys after their window.
CREATE INDEX jobs_by_key_age ON jobs (created_at) WHERE idempotency_key IS NOT NULL;
-- Lists of a principal's jobs. Ids are ordered by age, so the newest come first when it is read backwards.
CREATE INDEX jobs_by_principal ON jobs (principal, id);
-- Jobs that a job delegated.
CREATE INDEX jobs_by_parent ON jobs (parent_id) WHERE parent_id IS NOT NULL;
-- Whether a session has open jobs.
CREATE INDEX jobs_by_session ON jobs (session_id) WHERE counted;

-- Present state of each job: one narrow row, which every change of the job locks.
CREATE TABLE job_clock (
    job_id           uuid PRIMARY KEY,
    agent            text NOT NULL,
    -- As in `jobs`. A job with an intent changes under the intent's lock, which is taken first.
    intent_id        uuid,
    -- `preparing` until its credentials are minted; then as on the wire.
    status           text NOT NULL,
    -- Number of the last event in the job, and in the numbering of the submitting session.
    last_seq         bigint NOT NULL,
    origin_seq       bigint NOT NULL,
    -- Number of claims.
    attempt          integer NOT NULL,
    worker_id        uuid,
    -- SHA-256 of the claim's token.
    claim_token      bytea,
    claim_expires_at timestamptz,
    -- When that worker claimed the job.
    claimed_at       timestamptz,
    cancel_reason    text,
    cancel_due_at    timestamptz,
    -- Next effect of time, which the domain rules decide. After a failure: its end, until the job's children are stopped.
    due_at           timestamptz,
    -- JSON: progress of the streamed result.
    streamed         text,
    -- Streamed results that earlier attempts began and did not finish.
    abandoned        text[] NOT NULL,
    ended_at         timestamptz,
    -- SHA-256 of the worker's report that ended it: the same report again is a retry, another one is refused.
    ended_by         bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- Jobs to claim, oldest first: without an intent, and with one.
CREATE INDEX job_clock_pending ON job_clock (agent, job_id) WHERE status = 'pending' AND intent_id IS NULL;
CREATE INDEX job_clock_pending_intent ON job_clock (agent, job_id) WHERE status = 'pending' AND intent_id IS NOT NULL;
-- Sweep: due effects of time. Every running job is due at some time, so it also finds the jobs of a worker.
CREATE INDEX job_clock_due ON job_clock (due_at) WHERE due_at IS NOT NULL;
-- The dashboard's count of unfinished jobs, however many are finished.
CREATE INDEX job_clock_open ON job_clock (job_id) WHERE ended_at IS NULL;

-- Events of jobs (§8): workers' reports and the job's end. They are in no hash chain.
CREATE TABLE job_events (
    job_id     uuid NOT NULL,
    -- Number in the job, from 1.
    job_seq    bigint NOT NULL,
    -- Number in the submitting session; an event that the session does not get has the number of the one before.
    origin_seq bigint NOT NULL,
    -- Submitting session, if it numbers events and gets this one.
    session_id uuid,
    -- job.event, job.result or job.error.
    type       text NOT NULL,
    -- Kind of a job.event.
    kind       text,
    ts         timestamptz NOT NULL,
    -- Body of a job.event, otherwise the payload; JSON as received.
    body       text NOT NULL,
    -- The worker's key for the event: a repeated one is stored once.
    event_key  text,
    -- Writing transaction: orders the events of all jobs.
    xid        bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (job_id, job_seq)
);

-- A job ends once.
CREATE UNIQUE INDEX job_events_terminal ON job_events (job_id) WHERE type <> 'job.event';
-- A worker's key is used once in a job.
CREATE UNIQUE INDEX job_events_by_key ON job_events (job_id, event_key) WHERE event_key IS NOT NULL;
-- Events of a session's own jobs, in the session's numbers.
CREATE UNIQUE INDEX job_events_by_session ON job_events (session_id, origin_seq) WHERE session_id IS NOT NULL;
-- Streams over many jobs.
CREATE INDEX job_events_by_xid ON job_events (xid, job_id, job_seq);
-- Last event of a job up to a number of the submitting session, after which a subscription with history starts.
CREATE INDEX job_events_by_origin ON job_events (job_id, origin_seq, job_seq);
