-- Who can hold a key, and the keys.

CREATE TABLE principals (
    id           text PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('human', 'agent', 'service')),
    display_name text,
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL
);

CREATE TABLE keys (
    id              uuid PRIMARY KEY,
    -- What a presented key is looked up by; no secret. A seeded key of `entente dev` has a digest of itself here.
    public_id       text NOT NULL CONSTRAINT keys_public_id_unique UNIQUE,
    principal_id    text NOT NULL REFERENCES principals (id),
    -- argon2id in PHC form. The key itself is stored nowhere.
    secret_hash     text NOT NULL,
    label           text,
    scopes          text[] NOT NULL,
    act_as          text[] NOT NULL,
    dialect         text,
    -- Null: the server's setting. 0: without limit.
    rate_per_second integer CHECK (rate_per_second >= 0),
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    revoked_at      timestamptz,
    rotated_from    uuid,
    -- Written every few seconds from memory, not per request.
    last_used_at    timestamptz,
    -- The number in the house's line of the last change that other nodes must hear of: they drop what they remember
    -- of every key with a higher number than they have seen.
    changed_seq     bigint NOT NULL
);

CREATE INDEX keys_by_principal ON keys (principal_id);
CREATE INDEX keys_by_change ON keys (changed_seq);
