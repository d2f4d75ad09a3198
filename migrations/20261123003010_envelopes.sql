-- Envelopes (AEE 1): signed messages between entities; with the ids that must never return, and refutations.

-- Envelopes with their first receipts. An envelope is stored as the text that was received and is never changed; the
-- gateway's own facts are columns beside it.
CREATE TABLE aee_envelopes (
    -- The sender's id. It is unique while the envelope is stored, and that is never shorter than an envelope with this id
    -- could still be accepted (AEE §11.1).
    id                 text PRIMARY KEY,
    type               text NOT NULL CHECK (type IN ('task', 'result', 'event', 'error', 'stream')),
    sender             text NOT NULL,
    recipient          text NOT NULL,
    -- AEE's `intent`.
    purpose            text NOT NULL,
    corr               text NOT NULL,
    reply_to           text,
    priority           text NOT NULL,
    -- Null if the envelope's `ts` is no valid time.
    sent_at            timestamptz,
    received_at        timestamptz NOT NULL,
    -- Principal of the key that it was submitted with; null for the gateway's own envelopes.
    principal_id       text,
    -- Proof of its sender, and the key of a signature.
    verified_by        text NOT NULL CHECK (verified_by IN ('sig', 'token', 'gateway')),
    kid                text,
    -- `core`: the signature covers only the ten members of AEE §8, so nobody vouches for `priority` and `requires`
    -- (AEE-W-9.3). Null: it covers everything but itself, or there is none.
    sig_scope          text,
    -- First receipt, for a sender that repeats the envelope. `redacted`: a rule removes parts, so the sender's envelope is
    -- stored and the recipients get another one instead.
    status             text NOT NULL CHECK (status IN ('accepted', 'held', 'answered', 'redacted')),
    effective_priority text NOT NULL,
    deadline           timestamptz,
    warnings           text[] NOT NULL,
    -- Number in its recipient's mailbox; null for a bus, and for an envelope that was held, or answered at once.
    seq                bigint,
    -- Number of mailboxes that it was put into.
    delivered          integer NOT NULL,
    -- Envelope that the gateway derived this one from, by redaction (AEE §11.5) or to answer for another entity.
    original_id        text,
    body               text NOT NULL,
    -- SHA-256 of the body: only the same bytes are a retry.
    digest             bytea NOT NULL,
    -- Hash by which references name the envelope (AEE §10.2, AEE-W-9.5), computed once at ingest. An envelope without one is
    -- not compared.
    hash               text,
    -- A person has approved this task to a bus, and it went to the bus then.
    agreed             boolean NOT NULL DEFAULT false,
    -- Writing transaction; of an approved task to a bus, the approving one. Envelopes to a bus have no number there: they are
    -- read in the order of transactions, below the oldest one that is still running.
    xid                bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);

-- Threads, in the order of receipt.
CREATE INDEX aee_envelopes_by_thread ON aee_envelopes (corr, received_at, id);
-- Sweep: envelopes after their retention time.
CREATE INDEX aee_envelopes_by_age ON aee_envelopes (received_at);
-- Envelopes derived from another.
CREATE INDEX aee_envelopes_by_original ON aee_envelopes (original_id) WHERE original_id IS NOT NULL;
-- Envelopes of a bus, for bridges.
CREATE INDEX aee_envelopes_on_buses ON aee_envelopes (recipient, xid, id)
    WHERE recipient LIKE 'bus.%' AND (status = 'accepted' OR agreed);

-- Ids of deleted envelopes whose `ts` was no valid time (AEE §11.1). Their age cannot be judged, so only this memory keeps
-- them from being accepted again. Rows are never deleted, and have nothing of the envelopes' contents.
CREATE TABLE aee_untimed (
    -- SHA-256 of the id.
    digest bytea PRIMARY KEY
);

-- Refutations of envelopes by their recipients (`aee.context.refute`). A refutation does not change the envelope.
CREATE TABLE aee_refutations (
    envelope_id text NOT NULL,
    entity      text NOT NULL,
    reason      text NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (envelope_id, entity)
);
