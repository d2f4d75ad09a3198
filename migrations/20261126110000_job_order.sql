-- Order of waiting jobs: by priority, then in turns over principals, then by age. Servers of the previous release leave the
-- defaults: their jobs are of normal priority, and share the turn of a principal without a name.
ALTER TABLE job_clock
    -- The negated priority, so that ascending order is the order of claims: 0 is normal, smaller is sooner.
    ADD COLUMN precedence smallint NOT NULL DEFAULT 0,
    -- As in `jobs`: whose turn it is.
    ADD COLUMN principal text NOT NULL DEFAULT '',
    -- Whether a pending job is kept out of the queue, because as many jobs of its concurrency key run as may.
    ADD COLUMN parked boolean NOT NULL DEFAULT false;
