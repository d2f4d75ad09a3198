-- Jobs (ARCP 1.1): agents that run them, workers, the jobs, their events, what they may spend, and the sessions through
-- which clients follow them.

-- Which versions of which agents run jobs (§7.5). An agent is there whether or not a worker is.
CREATE TABLE agent_versions (
    name               text NOT NULL,
    version            text NOT NULL,
    -- Who registered the name first: nobody else adds versions or claims its jobs.
    owner              text NOT NULL,
    is_default         boolean NOT NULL,
    -- Whether a job without `model.use` may use no model (§9.7).
    needs_model        boolean NOT NULL,
    -- Seconds that its jobs may take at the most.
    max_runtime        integer,
    -- What becomes of a job whose worker was lost, and after how many of them it fails all the same.
    on_lost            text NOT NULL,
    max_attempts       integer NOT NULL,
    registered_at      timestamptz NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE workers (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    -- Whose: nobody else speaks for it.
    principal     text NOT NULL,
    agents        text[] NOT NULL,
    slots         integer NOT NULL,
    -- A JSON object, for people.
    labels        text NOT NULL,
    -- What it is told with its next heartbeat: run, quiet (claim nothing more) or terminate.
    directive     text NOT NULL,
    -- What it said of itself last.
    state         text NOT NULL,
    registered_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL
);
CREATE INDEX workers_by_sight ON workers (last_seen_at);

-- What a job was asked for. Never changes, but for a key that is past its window.
CREATE TABLE jobs (
    id              uuid PRIMARY KEY,
    agent           text NOT NULL,
    principal       text NOT NULL,
    session_id      uuid NOT NULL,
    -- Whether the session has a row in `sessions` and counts events over all its jobs; else the job's own numbers are its.
    counted         boolean NOT NULL,
    -- JSON texts are kept as they came.
    input           text,
    lease           text NOT NULL,
    expires_at      timestamptz,
    deadline        timestamptz,
    idempotency_key text,
    fingerprint     bytea NOT NULL,
    parent_id       uuid,
    delegate_id     text,
    generation      integer NOT NULL,
    -- The jobs whose counters its costs are taken off: of its ancestors and itself, those with a budget, the eldest first.
    payers          uuid[] NOT NULL,
    trace_id        text NOT NULL,
    intent_id       uuid,
    needs_model     boolean NOT NULL,
    on_lost         text NOT NULL,
    max_attempts    integer NOT NULL,
    created_at      timestamptz NOT NULL
);
-- A key is its principal's; two requests at once are one job (§7.2).
CREATE UNIQUE INDEX jobs_by_key ON jobs (principal, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_by_key_age ON jobs (created_at) WHERE idempotency_key IS NOT NULL;
-- A job's id is its age: lists are this index backwards.
CREATE INDEX jobs_by_principal ON jobs (principal, id);
CREATE INDEX jobs_by_parent ON jobs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX jobs_by_session ON jobs (session_id) WHERE counted;
CREATE INDEX jobs_by_intent ON jobs (intent_id) WHERE intent_id IS NOT NULL;

-- Where a job stands: one narrow row, which every change of it locks.
CREATE TABLE job_clock (
    job_id           uuid PRIMARY KEY,
    agent            text NOT NULL,
    -- Of `jobs`: what happens to such a job happens under its intent's lock, which is taken first.
    intent_id        uuid,
    -- `preparing` until its credentials are there; then as on the wire.
    status           text NOT NULL,
    last_seq         bigint NOT NULL,
    origin_seq       bigint NOT NULL,
    attempt          integer NOT NULL,
    worker_id        uuid,
    -- SHA-256 of the claim's token.
    claim_token      bytea,
    claim_expires_at timestamptz,
    cancel_reason    text,
    cancel_due_at    timestamptz,
    -- When the next thing is due by itself; what is due is the law's affair.
    due_at           timestamptz,
    -- JSON: the streamed result as far as it has come.
    streamed         text,
    abandoned        text[] NOT NULL,
    ended_at         timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- What workers take, the oldest first.
CREATE INDEX job_clock_pending ON job_clock (agent, job_id) WHERE status = 'pending' AND intent_id IS NULL;
CREATE INDEX job_clock_pending_intent ON job_clock (agent, job_id) WHERE status = 'pending' AND intent_id IS NOT NULL;
-- Whatever is running is due sometime, so this is also where a worker's jobs are found.
CREATE INDEX job_clock_due ON job_clock (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE job_events (
    job_id     uuid NOT NULL,
    job_seq    bigint NOT NULL,
    -- The number in the submitting session's space; of an event that it is not sent, that of the one before.
    origin_seq bigint NOT NULL,
    -- The submitting session, when it counts and is sent the event.
    session_id uuid,
    -- job.event, job.result or job.error.
    type       text NOT NULL,
    -- Of a job.event.
    kind       text,
    ts         timestamptz NOT NULL,
    -- Of a job.event its body, else the payload; JSON as it came.
    body       text NOT NULL,
    -- A worker's name for the event: one that is sent twice is kept once.
    event_key  text,
    xid        bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (job_id, job_seq)
);
-- A job ends once.
CREATE UNIQUE INDEX job_events_terminal ON job_events (job_id) WHERE type <> 'job.event';
CREATE UNIQUE INDEX job_events_by_key ON job_events (job_id, event_key) WHERE event_key IS NOT NULL;
CREATE UNIQUE INDEX job_events_by_session ON job_events (session_id, origin_seq) WHERE session_id IS NOT NULL;
-- The order of a stream over many jobs.
CREATE INDEX job_events_by_xid ON job_events (xid, job_id, job_seq);

-- What a job may spend, in exact decimals (§9.6).
CREATE TABLE job_budgets (
    job_id    uuid NOT NULL,
    currency  text NOT NULL,
    allowed   numeric NOT NULL,
    remaining numeric NOT NULL,
    PRIMARY KEY (job_id, currency)
) WITH (fillfactor = 50);

-- Amounts that are set aside before they are spent: off the counters already, and back on them when they are let go.
CREATE TABLE job_reservations (
    id         uuid PRIMARY KEY,
    job_id     uuid NOT NULL,
    -- The claim that made it: with that it goes.
    attempt    integer NOT NULL,
    -- JSON: amounts by currency.
    amounts    text NOT NULL,
    -- For which call: asked for again in the same attempt, it is the same.
    call_id    text,
    created_at timestamptz NOT NULL
);
CREATE INDEX job_reservations_by_job ON job_reservations (job_id);

-- Sessions of clients on sockets and stdio (§6).
CREATE TABLE sessions (
    id            uuid PRIMARY KEY,
    principal     text NOT NULL,
    -- The features that both sides have.
    features      text[] NOT NULL,
    dialect       text NOT NULL,
    -- SHA-256 of the resume token; another one with every welcome.
    token         bytea NOT NULL,
    -- The number of the last event that the session counted.
    last_seq      bigint NOT NULL,
    -- What the client has said to have processed: events up to here are no longer kept for a resume.
    acked_seq     bigint NOT NULL,
    -- Rises with every connection: an older one of the same session is over.
    connection    bigint NOT NULL,
    -- Whether a connection is known of, for the cap per principal.
    attached      boolean NOT NULL,
    client        text NOT NULL,
    created_at    timestamptz NOT NULL,
    -- Until when it can be resumed; moved on while it is connected.
    expires_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX sessions_by_principal ON sessions (principal) WHERE attached;
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Which number a session gave to what is not an event of its own jobs: events of jobs that it subscribed to, and frames
-- that only it is sent.
CREATE TABLE session_frames (
    session_id uuid NOT NULL,
    event_seq  bigint NOT NULL,
    job_id     uuid NOT NULL,
    -- The job's event; without one the frame is this session's alone, and its payload is here.
    job_seq    bigint,
    payload    text,
    PRIMARY KEY (session_id, event_seq)
);

-- The jobs that a session has subscribed to (§7.6).
CREATE TABLE session_follows (
    session_id uuid NOT NULL,
    job_id     uuid NOT NULL,
    -- Events up to here have their number in the session.
    cursor_seq bigint NOT NULL,
    -- Of a job of its own: the events after this come by themselves.
    until_seq  bigint,
    PRIMARY KEY (session_id, job_id)
);
