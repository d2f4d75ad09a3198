-- Numbers of deliveries at a Kafka broker, which refuses a number that it has: the producer's id, and in `producer_sequence` the partition (upper
-- 32 bits) and the sequence number in it. A broker of another kind leaves them NULL.
ALTER TABLE webhook_deliveries ADD COLUMN producer_id bigint, ADD COLUMN producer_sequence bigint;
