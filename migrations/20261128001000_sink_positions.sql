-- Where the log of a broker ended when this delivery was first published there: whoever publishes it again looks behind that place
-- whether it has arrived. Null before the first attempt, and for receivers with URLs. A server of the release before takes a
-- sink's address for a URL that cannot be reached, and leaves the delivery for later.
ALTER TABLE webhook_deliveries ADD COLUMN position bigint;
