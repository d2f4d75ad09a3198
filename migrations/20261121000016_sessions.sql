-- What a session needs besides its numbers: how it is written, and by whose word it was let in.

ALTER TABLE sessions
    -- Whether its frames are lines on stdio, which are short: larger chunks are cut, and counted on from there.
    ADD COLUMN lines boolean NOT NULL DEFAULT false,
    -- What it was opened with: `key:` and a key's public part, or `until:` and when a signed token ends. A `session.resume`
    -- presents nothing but the resume token, and gets in as who opened the session, for as long as that still opens.
    ADD COLUMN opened_by text NOT NULL DEFAULT '',
    -- The token before the last: it opens the session too, until a sign of life has come over the connection whose welcome
    -- brought the new one. Otherwise a welcome that is lost on its way would lock its client out.
    ADD COLUMN prior_token bytea;

-- The last event of a job up to a number of the submitting session: from where on a subscription with a history begins.
CREATE INDEX job_events_by_origin ON job_events (job_id, origin_seq, job_seq);
