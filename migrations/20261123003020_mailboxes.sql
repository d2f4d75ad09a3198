-- Mailboxes (AEE §5): queues of envelopes for their recipients.

-- Mailboxes of entities. The lock of a row makes the order of its numbers the order in which items become visible.
CREATE TABLE aee_mailboxes (
    entity     text PRIMARY KEY,
    -- Null if it opened by itself, because an envelope was addressed to a known principal or agent.
    opened_by  text,
    created_at timestamptz NOT NULL,
    -- Number of its last item.
    last_seq   bigint NOT NULL DEFAULT 0,
    -- All items up to here are acknowledged.
    acked_seq  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

-- Items of mailboxes: an envelope in a mailbox.
CREATE TABLE aee_items (
    entity             text NOT NULL,
    -- Number in the mailbox.
    seq                bigint NOT NULL,
    envelope_id        text NOT NULL,
    received_at        timestamptz NOT NULL,
    effective_priority text NOT NULL,
    -- Order of the waiting items: the receipt, earlier by the time that the priority is worth (AEE-W-8.1).
    rank               timestamptz NOT NULL,
    -- Reserved until then for the client that picked it.
    held_until         timestamptz,
    acked_at           timestamptz,
    PRIMARY KEY (entity, seq)
) WITH (fillfactor = 80);

-- Items to pick, most urgent first.
CREATE INDEX aee_items_by_rank ON aee_items (entity, rank, seq) WHERE acked_at IS NULL;
-- Waiting items by number: an acknowledgement looks for the first of them.
CREATE INDEX aee_items_waiting ON aee_items (entity, seq) WHERE acked_at IS NULL;
-- Mailboxes that have an envelope.
CREATE INDEX aee_items_by_envelope ON aee_items (envelope_id, entity);
