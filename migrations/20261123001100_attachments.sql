-- Attachments (RFC-0005): files of an intent, by reference. The files themselves are stored elsewhere.
CREATE TABLE attachments (
    id           uuid PRIMARY KEY,
    intent_id    uuid NOT NULL REFERENCES intents (id),
    -- Number in the intent's log under which the attachment was added: the order of the list.
    seq          bigint NOT NULL,
    filename     text NOT NULL,
    mime_type    text NOT NULL,
    -- As the uploader gives it; the file is never read.
    size         bigint NOT NULL CHECK (size >= 0),
    storage_url  text NOT NULL,
    content_hash text,
    -- A JSON object of the client.
    metadata     text NOT NULL,
    uploaded_by  text NOT NULL,
    created_at   timestamptz NOT NULL
);

-- Lists of an intent's attachments.
CREATE INDEX attachments_by_intent ON attachments (intent_id, seq);
