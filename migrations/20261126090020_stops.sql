-- Stops: subjects that start nothing any more until the stop is lifted.

CREATE TABLE stops (
    id          uuid PRIMARY KEY,
    scope       text NOT NULL,
    subject     text NOT NULL,
    reason      text NOT NULL,
    -- The budget whose threshold made it.
    budget_id   uuid,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    lifted_by   text,
    lifted_at   timestamptz,
    -- When the running jobs of the subject were told to end.
    told_at     timestamptz,
    -- Number in the system log of the last change, for the servers' copies.
    changed_seq bigint NOT NULL
);

CREATE INDEX stops_by_change ON stops (changed_seq);
-- Stops in force.
CREATE INDEX stops_in_force ON stops (created_at) WHERE lifted_at IS NULL;
-- Sweep: stops whose jobs do not all know yet.
CREATE INDEX stops_to_tell ON stops (created_at) WHERE told_at IS NULL AND lifted_at IS NULL;
