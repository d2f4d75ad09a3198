-- Servers that share this database.

-- Presence of the servers: each renews its row every few seconds, and wakes the others after its changes while any are
-- present. Half-empty pages keep these updates in place (HOT).
CREATE TABLE nodes (
    id         uuid PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Probe writes, by which a server checks that it can write (`/readyz`): one row per server, updated again and again. Rows
-- of servers that are gone are deleted by the others.
CREATE TABLE node_probes (
    node_id    uuid PRIMARY KEY,
    -- Number of probes.
    count      bigint NOT NULL DEFAULT 1,
    written_at timestamptz NOT NULL
);

COMMENT ON TABLE node_probes IS 'What servers write to see whether they can; rows of servers that are gone are removed by the others';
