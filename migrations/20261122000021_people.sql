-- How people get in: passwords and one-time links. What either opens is an ordinary key of that person (`keys`, with the
-- label `browser` or `terminal`), so that everything which holds for keys holds for logins.

CREATE TABLE passwords (
    principal_id text PRIMARY KEY REFERENCES principals (id),
    -- argon2id in PHC form.
    hash         text NOT NULL,
    -- Whether whoever logs in with it may also do what needs the scope `admin`.
    admin        boolean NOT NULL,
    set_by       text NOT NULL,
    set_at       timestamptz NOT NULL
);

CREATE TABLE links (
    -- SHA-256 of what stands in the link. That is 256 bits of chance, so a fast hash keeps it well enough.
    digest       bytea PRIMARY KEY,
    principal_id text NOT NULL REFERENCES principals (id),
    admin        boolean NOT NULL,
    -- Which page it opens: a path of this server.
    leads_to     text NOT NULL,
    made_by      text NOT NULL,
    -- The key that made it: with that one's revocation the link is void. Null for the house itself (`entente dev`).
    made_by_key  uuid,
    made_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- A link opens once. It is kept until its end, so that the second who comes with it is told what happened.
    used_at      timestamptz
);

CREATE INDEX links_by_end ON links (expires_at);

-- A new password voids those that wait.
CREATE INDEX links_by_person ON links (principal_id) WHERE used_at IS NULL;
