-- API keys of principals. The key itself is stored nowhere, only its hashes.
CREATE TABLE keys (
    id              uuid PRIMARY KEY,
    -- Public part, by which a presented key is looked up. A key of `entente dev --seed` has a digest of itself here.
    public_id       text NOT NULL CONSTRAINT keys_public_id_unique UNIQUE,
    principal_id    text NOT NULL REFERENCES principals (id),
    -- argon2id in PHC form, of the least cost. Only a key without `secret_sha256` is verified by it.
    secret_hash     text NOT NULL,
    -- SHA-256 of the key, with which a presented key is compared. A key has 256 random bits, so nobody finds it by
    -- trying, and a slow hash would protect it no better. Null: `secret_hash` verifies the key once, and then this is set.
    secret_sha256   bytea CONSTRAINT keys_secret_sha256_bytes CHECK (octet_length(secret_sha256) = 32),
    label           text,
    -- Operations that the key allows, and the agents that it may act as (names, globs with `*`).
    scopes          text[] NOT NULL,
    act_as          text[] NOT NULL,
    -- Format of times and names in responses; null: detected from the request.
    dialect         text,
    -- Null: the server's setting. 0: unlimited.
    rate_per_second integer CHECK (rate_per_second >= 0),
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    revoked_at      timestamptz,
    -- Key that this one replaced.
    rotated_from    uuid,
    -- Written from memory every few seconds, not with each request.
    last_used_at    timestamptz,
    -- How a person's key came about (`entente_domain::identity::authority::Basis`). Null for keys of agents and services;
    -- a person's key without a basis decides nothing, so that nobody decides in that person's place.
    basis           text,
    -- Principal that made the credential which first let the person in.
    let_in_by       text,
    -- Number in the system log of the last change. Other servers drop the keys with a higher number than they have seen
    -- from their caches.
    changed_seq     bigint NOT NULL
);

-- Lists of a principal's keys.
CREATE INDEX keys_by_principal ON keys (principal_id);
-- Keys that changed since a server's last look.
CREATE INDEX keys_by_change ON keys (changed_seq);
-- Follows a key through its rotations: webhook endpoints, triggers and bridges act with the newest one.
CREATE INDEX keys_by_rotation ON keys (rotated_from) WHERE rotated_from IS NOT NULL;
