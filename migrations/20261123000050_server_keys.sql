-- Signing keys of the servers (RFC-0019), current and former: all stay listed, so that their signatures can be checked.
CREATE TABLE server_keys (
    -- Public key as a did:key, as it is named by everything that it signed.
    did        text PRIMARY KEY,
    -- Secret half of the one key that the servers created themselves. Null for a key from ENTENTE_SIGNING_KEY, which is
    -- never stored in the database.
    seed       bytea,
    created_at timestamptz NOT NULL
);

-- At most one key with its secret, however many servers start at once.
CREATE UNIQUE INDEX server_keys_one_kept ON server_keys ((true)) WHERE seed IS NOT NULL;
