-- Quotas of principals and teams: what an admin set. What is null, or has no row, is the servers' default.
CREATE TABLE quotas (
    -- principal or team.
    scope            text NOT NULL CHECK (scope IN ('principal', 'team')),
    -- Id of the principal, or name of the team.
    subject          text NOT NULL,
    -- Limits; 0: none.
    open_requests    bigint CHECK (open_requests >= 0),
    bytes_per_minute bigint CHECK (bytes_per_minute >= 0),
    storage_bytes    bigint CHECK (storage_bytes >= 0),
    set_by           text NOT NULL,
    set_at           timestamptz NOT NULL,
    -- Number in the system log of the last change, for the servers' copies.
    changed_seq      bigint NOT NULL,
    PRIMARY KEY (scope, subject)
);

-- Quotas that changed on other servers.
CREATE INDEX quotas_by_change ON quotas (changed_seq);

-- What was counted of each part of the stored data: a channel's messages, a job, an hour of envelopes, some thousand log
-- lines. A part is counted again when its stamp changes (crates/kernel/src/identity/quotas/storage.rs).
CREATE TABLE stored_parts (
    -- channel, job, envelopes or log_lines.
    source text NOT NULL,
    -- Id of the channel or job, or number of the hour or of the thousand, in the order of the walk.
    part   text COLLATE "C" NOT NULL,
    -- What the part looked like when it was counted.
    stamp  text NOT NULL,
    -- JSON: bytes of each principal.
    sums   text NOT NULL,
    PRIMARY KEY (source, part)
) WITH (fillfactor = 80);

-- Bytes that each principal stores, the sum over all parts.
CREATE TABLE stored_totals (
    principal_id text PRIMARY KEY,
    bytes        bigint NOT NULL
) WITH (fillfactor = 80);

-- The walk over all parts. One row, whose lock the server has that walks.
CREATE TABLE storage_clock (
    -- Allows one row only.
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Place of the walk.
    source     text NOT NULL DEFAULT 'channel',
    after      text NOT NULL DEFAULT '',
    -- Whether this walk has changed a total.
    changed    boolean NOT NULL DEFAULT false,
    -- When a walk last ended.
    counted_at timestamptz,
    -- Number of walks that changed something: servers renew their copies by it.
    laps       bigint NOT NULL DEFAULT 0
);

INSERT INTO storage_clock (one) VALUES (true);
