-- When the job of a firing is tried again after it could not be submitted; new ones come first.
ALTER TABLE trigger_firings ADD COLUMN job_next_at timestamptz;
