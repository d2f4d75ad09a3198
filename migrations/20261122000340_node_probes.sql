-- What servers write to see whether they can: one row per server, written over and over (`/readyz`).

CREATE TABLE node_probes (
    node_id    uuid PRIMARY KEY,
    -- How often it was written.
    count      bigint NOT NULL DEFAULT 1,
    written_at timestamptz NOT NULL
);

COMMENT ON TABLE node_probes IS 'What servers write to see whether they can; rows of servers that are gone are removed by the others';
