-- Attachments (RFC-0005): files of an intent, by reference. The files themselves are elsewhere.

CREATE TABLE attachments (
    id           uuid PRIMARY KEY,
    intent_id    uuid NOT NULL REFERENCES intents (id),
    -- The number on the intent's line under which it was added: the order of the list.
    seq          bigint NOT NULL,
    filename     text NOT NULL,
    mime_type    text NOT NULL,
    -- As its owner says; the file is never read.
    size         bigint NOT NULL CHECK (size >= 0),
    storage_url  text NOT NULL,
    content_hash text,
    -- A JSON object of the client's own.
    metadata     text NOT NULL,
    uploaded_by  text NOT NULL,
    created_at   timestamptz NOT NULL
);

CREATE INDEX attachments_by_intent ON attachments (intent_id, seq);
