-- Keys with which entities sign envelopes (AEE §8). A revoked key stays, so that nobody else gets its name.
CREATE TABLE aee_keys (
    entity     text NOT NULL,
    kid        text NOT NULL,
    algorithm  text NOT NULL CHECK (algorithm IN ('ed25519', 'HS256')),
    -- The public half; for HS256 the secret in clear, because the verifier must know it. No list and no log shows it.
    material   bytea NOT NULL,
    not_before timestamptz NOT NULL,
    not_after  timestamptz,
    revoked_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (entity, kid)
);
