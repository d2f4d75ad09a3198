-- Vaults (RFC-0014): credentials that agents use without ever seeing them.

-- Vaults, each of one owner, who adds the credentials and grants their use.
CREATE TABLE vaults (
    id         uuid PRIMARY KEY,
    owner_id   text NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    removed_at timestamptz
);

-- Lists of an owner's vaults.
CREATE INDEX vaults_by_owner ON vaults (owner_id, id) WHERE removed_at IS NULL;
-- Sweep: removed vaults.
CREATE INDEX vaults_by_removal ON vaults (removed_at) WHERE removed_at IS NOT NULL;

-- Credentials of services, with their sealed secrets.
CREATE TABLE tool_credentials (
    id               uuid PRIMARY KEY,
    vault_id         uuid NOT NULL REFERENCES vaults,
    service          text NOT NULL,
    label            text NOT NULL,
    auth_type        text NOT NULL,
    -- Scopes that can be granted; empty for any.
    scopes_available text[] NOT NULL,
    -- JSON: the service's address and protocol. Never a secret.
    metadata         text NOT NULL,
    -- Names of the parts of the secret.
    members          text[] NOT NULL,
    -- Version of the value, 0 while there is none. It is authenticated together with the sealed value.
    version          integer NOT NULL,
    -- Id of the key that sealed the value. The keys themselves are never in the database.
    key_id           text,
    -- Nonce and AES-256-GCM ciphertext, which opens only in this row of this vault at this version. Null: no value, or
    -- revoked.
    sealed           bytea,
    created_at       timestamptz NOT NULL,
    rotated_at       timestamptz,
    expires_at       timestamptz,
    -- The expiry was recorded in the log.
    expired          boolean NOT NULL DEFAULT false,
    revoked_at       timestamptz
);

-- Lists of a vault's credentials.
CREATE INDEX tool_credentials_by_vault ON tool_credentials (vault_id, id);
-- Values that an old key sealed, to be sealed again with the current one.
CREATE INDEX tool_credentials_by_key ON tool_credentials (key_id) WHERE key_id IS NOT NULL;
-- Sweep: revoked credentials after their retention time.
CREATE INDEX tool_credentials_by_revocation ON tool_credentials (revoked_at) WHERE revoked_at IS NOT NULL;
-- Sweep: expiries to record.
CREATE INDEX tool_credentials_by_end ON tool_credentials (expires_at) WHERE NOT expired AND revoked_at IS NULL;
