-- Vaults (RFC-0014): credentials that agents use and never see, and what lets them.

CREATE TABLE vaults (
    id         uuid PRIMARY KEY,
    -- Who puts credentials in and grants their use.
    owner_id   text NOT NULL,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    removed_at timestamptz
);

CREATE INDEX vaults_by_owner ON vaults (owner_id, id) WHERE removed_at IS NULL;

CREATE INDEX vaults_by_removal ON vaults (removed_at) WHERE removed_at IS NOT NULL;

CREATE TABLE tool_credentials (
    id               uuid PRIMARY KEY,
    vault_id         uuid NOT NULL REFERENCES vaults,
    service          text NOT NULL,
    label            text NOT NULL,
    auth_type        text NOT NULL,
    -- What can be granted of it; anything when empty.
    scopes_available text[] NOT NULL,
    -- JSON: where the service is and how it is spoken to. Never a secret.
    metadata         text NOT NULL,
    -- The names of the parts of the secret.
    members          text[] NOT NULL,
    -- Which of its values; 0 while it has none. A part of what is authenticated along with the sealed value.
    version          integer NOT NULL,
    -- The id of the key that the value is sealed with: keys themselves are never in the database.
    key_id           text,
    -- Nonce and AES-256-GCM. It opens in this row of this vault at this version only. Null: none, or revoked.
    sealed           bytea,
    created_at       timestamptz NOT NULL,
    rotated_at       timestamptz,
    expires_at       timestamptz,
    -- The end was written to the log.
    expired          boolean NOT NULL DEFAULT false,
    revoked_at       timestamptz
);

CREATE INDEX tool_credentials_by_vault ON tool_credentials (vault_id, id);
CREATE INDEX tool_credentials_by_key ON tool_credentials (key_id) WHERE key_id IS NOT NULL;
CREATE INDEX tool_credentials_by_revocation ON tool_credentials (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX tool_credentials_by_end ON tool_credentials (expires_at) WHERE NOT expired AND revoked_at IS NULL;
