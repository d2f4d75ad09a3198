-- What budgets need to know of a job and its reservations.

-- The key that submitted the job, or its eldest ancestor, and that key's principal. Null for jobs of earlier releases.
ALTER TABLE jobs ADD COLUMN key_id uuid, ADD COLUMN owner text;
-- Whether a job without a budget of its own may have reservations, so that other jobs need no look.
ALTER TABLE job_clock ADD COLUMN reserves boolean NOT NULL DEFAULT false;
-- The model that the amounts are reserved for.
ALTER TABLE job_reservations ADD COLUMN model text;
