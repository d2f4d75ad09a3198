-- How often a delivery was asked for again. A broker drops what it has by its name, so a replayed delivery has another one.
ALTER TABLE webhook_deliveries ADD COLUMN replays integer NOT NULL DEFAULT 0;
