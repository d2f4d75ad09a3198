-- The start that a job was submitted with, if it was later than the submission: a re-run counts its times from there.
ALTER TABLE jobs ADD COLUMN start_at timestamptz;
