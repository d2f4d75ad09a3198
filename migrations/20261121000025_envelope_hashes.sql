-- What a writer looks at in a batch without reading whole envelopes, and what an ack looks at in a mailbox.

-- The hash that references to it name (AEE §10.2), computed once when it is taken in. Null: it came before this was kept,
-- and is not compared.
ALTER TABLE aee_envelopes ADD COLUMN hash text;

-- What still waits in a mailbox, in its order: acks look for the first of it.
CREATE INDEX aee_items_waiting ON aee_items (entity, seq) WHERE acked_at IS NULL;
