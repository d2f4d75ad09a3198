-- The latest session of each agent that has opened one: writes that name an earlier epoch are refused.
CREATE TABLE agent_sessions (
    agent_id   text PRIMARY KEY,
    -- Grows by one with each session.
    epoch      bigint NOT NULL,
    -- Principal of the key that opened it.
    opened_by  text NOT NULL,
    opened_at  timestamptz NOT NULL,
    -- Whether each write of the agent has to name its epoch.
    strict     boolean NOT NULL,
    -- Number in the system log of the last change of `strict`, by which servers renew their copies; 0 for none.
    strict_seq bigint NOT NULL
);

CREATE INDEX agent_sessions_strict ON agent_sessions (strict_seq);

-- Requires that a session is the agent's latest until the end of the transaction: opening another one waits for that.
-- A statement would do; a function fails in the same round trip that begins the transaction.
CREATE FUNCTION require_epoch(of_agent text, of_session bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- After a wait for the row, PostgreSQL judges its new version.
    PERFORM FROM agent_sessions WHERE agent_id = of_agent AND epoch = of_session FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'epoch % of % is not the latest', of_session, of_agent USING ERRCODE = 'EN001';
    END IF;
END
$$;
