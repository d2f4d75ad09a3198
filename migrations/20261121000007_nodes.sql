-- The servers that share this database. Each says every few seconds that it is there; whoever sees others wakes them.

CREATE TABLE nodes (
    id         uuid PRIMARY KEY,
    started_at timestamptz NOT NULL,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
