-- no-transaction
-- Jobs that wait with a concurrency key, in the order of claims: which may go on when one of them ends.
CREATE INDEX CONCURRENTLY job_clock_gate ON job_clock (gate, precedence, job_id)
    WHERE status = 'pending' AND gate IS NOT NULL;
