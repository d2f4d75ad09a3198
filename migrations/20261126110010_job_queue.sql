-- no-transaction
-- Jobs to claim, in the order of claims. The previous release still reads `job_clock_pending` and `job_clock_pending_intent`.
CREATE INDEX CONCURRENTLY job_clock_queue ON job_clock (agent, precedence, principal, job_id)
    WHERE status = 'pending' AND NOT parked;
