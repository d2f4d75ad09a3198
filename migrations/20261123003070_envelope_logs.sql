-- Log lines sent as envelopes (AEE §7.2): stored for their sender, delivered to nobody.
CREATE TABLE aee_logs (
    seq          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    principal_id text NOT NULL,
    id           text NOT NULL,
    type         text NOT NULL,
    sender       text NOT NULL,
    purpose      text NOT NULL,
    corr         text,
    received_at  timestamptz NOT NULL,
    -- The line as received.
    body         text NOT NULL
);

-- Lines of a principal, and those of one thread among them.
CREATE INDEX aee_logs_by_principal ON aee_logs (principal_id, seq);
CREATE INDEX aee_logs_by_thread ON aee_logs (principal_id, corr, seq) WHERE corr IS NOT NULL;
-- Sweep: lines after their retention time.
CREATE INDEX aee_logs_by_age ON aee_logs (received_at);
