-- Stops: subjects that start nothing any more until the stop is lifted.
CREATE TABLE stops (
    id          uuid PRIMARY KEY,
    scope       text NOT NULL,
    subject     text NOT NULL,
    -- The same, of an intent or a key.
    subject_id  uuid,
    reason      text NOT NULL,
    -- The budget whose threshold made it.
    budget_id   uuid,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    lifted_by   text,
    lifted_at   timestamptz,
    -- Number in the system log of the last change, for the servers' copies.
    changed_seq bigint NOT NULL
);

-- Stops that changed on other servers.
CREATE INDEX stops_by_change ON stops (changed_seq);
-- Stops in force.
CREATE INDEX stops_in_force ON stops (created_at) WHERE lifted_at IS NULL;

-- Pending jobs that no worker gets because of a stop.
CREATE TABLE stopped_jobs (
    job_id uuid PRIMARY KEY
);

-- Whether a stop concerns a job: its key's principal, its submitter, its agent with the version, its intent and its key.
CREATE FUNCTION stop_concerns(scope text, subject text, subject_id uuid, owner text, principal text, agent text,
                              intent_id uuid, key_id uuid)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(CASE scope
        WHEN 'system' THEN true
        WHEN 'principal' THEN coalesce(owner, principal) = subject
        WHEN 'agent' THEN subject IN (split_part(agent, '@', 1), principal, coalesce(owner, principal))
        WHEN 'team' THEN EXISTS (SELECT 1 FROM team_members m
                                 WHERE m.team = subject AND m.principal_id = coalesce(owner, principal))
        WHEN 'intent' THEN intent_id = subject_id
        WHEN 'key' THEN key_id = subject_id END, false)
$$;
