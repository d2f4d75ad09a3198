-- Followers read by `log_order` and `job_order`. The indexes on transaction ids, which the next migrations drop, cost every
-- write and serve only the release before, which could follow nothing without them.
UPDATE schema_floor SET version = 20261125221030;
