-- Sessions (ARCP §6): clients that submit and follow jobs over WebSocket and stdio.

-- Sessions of clients, which outlive their connections.
CREATE TABLE sessions (
    id          uuid PRIMARY KEY,
    principal   text NOT NULL,
    -- Features that client and server share.
    features    text[] NOT NULL,
    dialect     text NOT NULL,
    -- Whether its frames are lines on stdio, which are short: larger chunks are split, and numbered on from there.
    lines       boolean NOT NULL DEFAULT false,
    -- Credential that opened the session: `key:` and the key's public part, or `until:` and the expiry of a signed token. A
    -- `session.resume` presents only the resume token, and acts as the principal that opened the session, as long as this
    -- credential is valid.
    opened_by   text NOT NULL DEFAULT '',
    -- SHA-256 of the resume token, which every welcome renews.
    token       bytea NOT NULL,
    -- SHA-256 of the token before. It opens the session too until the client is heard on the connection whose welcome brought
    -- the new token; otherwise a welcome that is lost on its way would lock the client out.
    prior_token bytea,
    -- Number of the session's last event.
    last_seq    bigint NOT NULL,
    -- Number up to which the client has processed events: these are no longer kept for a resume.
    acked_seq   bigint NOT NULL,
    -- Rises with each connection, which ends the earlier ones.
    connection  bigint NOT NULL,
    -- Whether a connection is known, for the limit per principal.
    attached    boolean NOT NULL,
    client      text NOT NULL,
    created_at  timestamptz NOT NULL,
    -- End of the time in which it can be resumed; extended while it is connected.
    expires_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Number of a principal's connected sessions.
CREATE INDEX sessions_by_principal ON sessions (principal) WHERE attached;
-- Sweep: sessions that can no longer be resumed.
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Numbered frames of a session besides the events of its own jobs: events of jobs that it follows, and frames for this
-- session alone.
CREATE TABLE session_frames (
    session_id uuid NOT NULL,
    event_seq  bigint NOT NULL,
    job_id     uuid NOT NULL,
    -- The job's event. Null: the frame is this session's alone, and `payload` has it.
    job_seq    bigint,
    payload    text,
    PRIMARY KEY (session_id, event_seq)
);

-- Subscriptions of sessions to jobs (§7.6).
CREATE TABLE session_follows (
    session_id uuid NOT NULL,
    job_id     uuid NOT NULL,
    -- Events up to this number of the job have their number in the session.
    cursor_seq bigint NOT NULL,
    -- For a job of the session's own: later events arrive without the subscription.
    until_seq  bigint,
    PRIMARY KEY (session_id, job_id)
);
