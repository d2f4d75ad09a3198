-- Teams: named groups of principals, for budgets and stops.
CREATE TABLE teams (
    name        text PRIMARY KEY,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    -- Number in the system log of the last change, for the servers' copies of the stops in force.
    changed_seq bigint NOT NULL
);

-- Teams that changed on other servers.
CREATE INDEX teams_by_change ON teams (changed_seq);

-- Members of teams.
CREATE TABLE team_members (
    team         text NOT NULL REFERENCES teams (name) ON DELETE CASCADE,
    principal_id text NOT NULL REFERENCES principals (id),
    PRIMARY KEY (team, principal_id)
);

-- Teams of a principal, whose budgets pay its costs.
CREATE INDEX team_members_by_principal ON team_members (principal_id, team);
