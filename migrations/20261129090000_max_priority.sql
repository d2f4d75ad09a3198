-- The highest priority that a principal may ask for; null for any. Rows of agents have none.
ALTER TABLE job_limits ADD COLUMN max_priority smallint;
