-- Logins of people: passwords and one-time links. A login creates an ordinary key of the person (`keys`, labelled
-- `browser` or `terminal`), so every rule for keys holds for logins.

-- Passwords of people, one each.
CREATE TABLE passwords (
    principal_id text PRIMARY KEY REFERENCES principals (id),
    -- argon2id in PHC form.
    hash         text NOT NULL,
    -- Whether a login with this password has the scope `admin`.
    admin        boolean NOT NULL,
    set_by       text NOT NULL,
    set_at       timestamptz NOT NULL,
    -- Time at which the person chose the password; null if somebody else set it. The password counts as the person's own
    -- only while this equals `set_at`.
    own_at       timestamptz,
    -- Principal that made the credential which first let the person in who chose the password.
    let_in_by    text
);

-- One-time links that log a person in. A link opens once. It is kept until it expires, so that a second visitor is told
-- that it was used.
CREATE TABLE links (
    -- SHA-256 of the link's secret. The secret has 256 random bits, so a fast hash protects it.
    digest       bytea PRIMARY KEY,
    principal_id text NOT NULL REFERENCES principals (id),
    -- Whether a login with this link has the scope `admin`.
    admin        boolean NOT NULL,
    -- Page that the link opens: a path of this server.
    leads_to     text NOT NULL,
    made_by      text NOT NULL,
    -- Key that made the link: revoking it voids the link. Null for the system itself (`entente dev`).
    made_by_key  uuid,
    made_at      timestamptz NOT NULL,
    -- Principal that lets the person in with this link, where that is not `made_by`: people make links for themselves too.
    let_in_by    text,
    expires_at   timestamptz NOT NULL,
    used_at      timestamptz
);

-- Sweep: expired links.
CREATE INDEX links_by_end ON links (expires_at);
-- A new password voids the person's unopened links.
CREATE INDEX links_by_person ON links (principal_id) WHERE used_at IS NULL;
