-- When the request of a place ended without a lease: the place is kept for its client to ask again, and nobody waits meanwhile.
-- Null while a request waits; servers of the previous release leave it so.
ALTER TABLE lease_waits ADD COLUMN left_at timestamptz;
