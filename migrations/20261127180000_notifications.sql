-- Contact points: where a person is told by mail, chat or push what waits for them.
CREATE TABLE contact_points (
    id             uuid PRIMARY KEY,
    principal_id   text NOT NULL REFERENCES principals (id),
    kind           text NOT NULL CHECK (kind IN ('mail', 'slack', 'teams', 'ntfy', 'web_push')),
    -- A mail address, or a URL.
    address        text NOT NULL,
    -- JSON, of a browser's push subscription.
    push_keys      text,
    label          text,
    -- JSON.
    settings       text NOT NULL,
    created_at     timestamptz NOT NULL,
    -- The code that confirms the address, and the wrong ones that were tried.
    code           text,
    code_tries     integer NOT NULL DEFAULT 0,
    confirmed_at   timestamptz,
    disabled_at    timestamptz,
    disabled_for   text,
    -- The row stays for a while, because it counts as one of the person's contact points.
    removed_at     timestamptz,
    -- When there is something to send next, and which server is at it.
    due_at         timestamptz,
    claimed_by     uuid,
    claimed_until  timestamptz,
    fence          bigint NOT NULL DEFAULT 0,
    -- Its receiver's health.
    rests_until    timestamptz,
    failures       integer NOT NULL DEFAULT 0,
    failing_since  timestamptz,
    last_error     text,
    last_error_at  timestamptz,
    last_sent_at   timestamptz
);

CREATE INDEX contact_points_of_person ON contact_points (principal_id, id);
CREATE INDEX contact_points_due ON contact_points (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX contact_points_removed ON contact_points (removed_at) WHERE removed_at IS NOT NULL;

-- Notifications: what a contact point is to be told, once each.
CREATE TABLE notifications (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contact_id   uuid NOT NULL REFERENCES contact_points (id),
    reason       text NOT NULL,
    -- What it is about: a moment, an envelope, a place in an inbox.
    subject      text NOT NULL,
    -- 0, and then the number of the reminder.
    step         integer NOT NULL,
    agent        text,
    deadline     timestamptz,
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    attempts     integer NOT NULL DEFAULT 0,
    status       text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'sent', 'failed', 'dropped')),
    finished_at  timestamptz,
    UNIQUE (contact_id, reason, subject, step)
);

CREATE INDEX notifications_due ON notifications (contact_id, due_at) WHERE status = 'waiting';
CREATE INDEX notifications_finished ON notifications (finished_at) WHERE finished_at IS NOT NULL;

-- The key pair by which push services know this installation (RFC 8292): one for all servers.
CREATE TABLE push_keys (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    pkcs8       bytea NOT NULL,
    created_at  timestamptz NOT NULL
);
