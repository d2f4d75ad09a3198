-- Questions that intents wait with (RFC-0025). What is asked and answered stands in the intent's state, under `_suspension`, where
-- the OpenIntent SDK writes and reads it; here is only what has become of it.

CREATE TABLE suspensions (
    intent_id    uuid NOT NULL REFERENCES intents (id),
    -- The asker's own: the SDK makes it.
    id           text NOT NULL,
    -- The order in which an intent has waited, from 1.
    n            bigint NOT NULL,
    asked_by     text NOT NULL,
    -- The question as it was put before a person, if it was.
    moment_id    uuid,
    -- Why it was not.
    unasked      text,
    state        text NOT NULL CHECK (state IN ('open', 'responded', 'expired', 'cancelled')),
    fallback     text NOT NULL,
    created_at   timestamptz NOT NULL,
    -- When the fallback counts; null: never.
    expires_at   timestamptz,
    ended_at     timestamptz,
    responded_by text,
    -- Why it was called off.
    end_reason   text,
    PRIMARY KEY (intent_id, id),
    UNIQUE (intent_id, n),
    CHECK ((state = 'open') = (ended_at IS NULL))
);

-- An intent waits with one question, whatever the code thinks.
CREATE UNIQUE INDEX suspensions_one_open ON suspensions (intent_id) WHERE state = 'open';
CREATE INDEX suspensions_by_expiry ON suspensions (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
