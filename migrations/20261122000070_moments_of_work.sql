-- Lists of the moments of one job and of one intent, the latest first. What waits of them has indexes already.
CREATE INDEX moments_by_job ON moments (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX moments_by_intent ON moments (intent_id, id) WHERE intent_id IS NOT NULL;
