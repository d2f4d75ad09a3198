-- Suspensions (RFC-0025): questions that intents wait with. Question and answer are in the intent's state under
-- `_suspension`, where the OpenIntent SDK writes and reads them; this table has only their course.
CREATE TABLE suspensions (
    intent_id          uuid NOT NULL REFERENCES intents (id),
    -- Assigned by the asking agent: the SDK generates it.
    id                 text NOT NULL,
    -- Number among the intent's questions, from 1.
    n                  bigint NOT NULL,
    asked_by           text NOT NULL,
    -- Principal of the asking key, because one key can have many names. Null: not recorded.
    asked_by_principal text,
    -- Moment that puts the question before a person; otherwise the reason why nobody was asked.
    moment_id          uuid,
    unasked            text,
    state              text NOT NULL CHECK (state IN ('open', 'responded', 'expired', 'cancelled')),
    fallback           text NOT NULL,
    created_at         timestamptz NOT NULL,
    -- When the fallback applies; null: never.
    expires_at         timestamptz,
    ended_at           timestamptz,
    responded_by       text,
    -- Reason for calling it off.
    end_reason         text,
    PRIMARY KEY (intent_id, id),
    UNIQUE (intent_id, n),
    CHECK ((state = 'open') = (ended_at IS NULL))
);

-- An intent waits with one question, even if the code errs.
CREATE UNIQUE INDEX suspensions_one_open ON suspensions (intent_id) WHERE state = 'open';
-- Sweep: fallbacks that apply.
CREATE INDEX suspensions_by_expiry ON suspensions (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
