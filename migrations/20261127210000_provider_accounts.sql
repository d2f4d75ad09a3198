-- Logins of people with accounts of the operator's OpenID Connect provider. A login creates an ordinary key of the person.

-- Accounts of the provider, each bound to a person at its first login.
CREATE TABLE provider_accounts (
    -- The provider's issuer URL.
    issuer       text NOT NULL,
    -- The issuer's id of the account, which never changes, while names and addresses do.
    subject      text NOT NULL,
    principal_id text NOT NULL REFERENCES principals (id),
    bound_at     timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject)
);

-- A person has one account of an issuer: a name that passes on to another account there does not bring the person along.
CREATE UNIQUE INDEX provider_accounts_by_person ON provider_accounts (principal_id, issuer);

-- Logins that succeeded, until they would be over anyway: each that begins may end once.
CREATE TABLE provider_logins (
    -- SHA-256 of the login's id.
    digest     bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

-- Each login deletes those that are over.
CREATE INDEX provider_logins_by_end ON provider_logins (expires_at);
