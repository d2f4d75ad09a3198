-- What a request requires to be so when it takes effect, beside the epoch of its agent's session (`require_epoch`): each
-- function fails in the round trip that begins the transaction, and locks the row until that ends. Whoever ends the lease
-- or the claim changes the row, and waits. Time is that of the database, because a server may have been paused.

-- Requires that an agent holds a lease with this fencing token.
CREATE FUNCTION require_lease(of_lease uuid, of_agent text, of_token bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- After a wait for the row, PostgreSQL judges its new version.
    PERFORM FROM leases WHERE id = of_lease AND agent_id = of_agent AND fencing_token = of_token
        AND status = 'active' AND expires_at > clock_timestamp() FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'lease % is not held with the token %', of_lease, of_token USING ERRCODE = 'EN002';
    END IF;
END
$$;

-- Requires that an agent has a task by this claim. While it is claimed, `due_at` is the end of the claim's time.
CREATE FUNCTION require_task(of_task uuid, of_agent text, of_claim bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tasks WHERE id = of_task AND assigned_agent = of_agent AND claims = of_claim AND claimed_at IS NOT NULL
        AND status IN ('claimed', 'running', 'blocked') AND (due_at IS NULL OR due_at > clock_timestamp()) FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'task % is not held by claim %', of_task, of_claim USING ERRCODE = 'EN003';
    END IF;
END
$$;

-- Requires that a worker has a job by the claim whose token has this digest.
CREATE FUNCTION require_job(of_job uuid, of_token bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Not shared: reports lock the row themselves, and two that share it would wait for each other.
    PERFORM FROM job_clock WHERE job_id = of_job AND claim_token = of_token
        AND status = 'running' AND claim_expires_at > clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not held by this claim', of_job USING ERRCODE = 'EN004';
    END IF;
END
$$;
