-- Portfolios (RFC-0004): intents that somebody keeps an eye on together. They give nobody access to anything.

CREATE TABLE portfolios (
    id                uuid PRIMARY KEY,
    name              text NOT NULL,
    description       text,
    -- The agent whose it is, who alone sees it, but for admins.
    created_by        text NOT NULL,
    status            text NOT NULL CHECK (status IN ('active', 'completed', 'abandoned')),
    -- JSON objects are kept as text, as those of intents.
    governance_policy text NOT NULL,
    metadata          text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL
);

CREATE INDEX portfolios_by_creator ON portfolios (created_by, id);

CREATE TABLE portfolio_members (
    id           uuid PRIMARY KEY,
    portfolio_id uuid NOT NULL REFERENCES portfolios (id),
    intent_id    uuid NOT NULL REFERENCES intents (id),
    role         text NOT NULL CHECK (role IN ('primary', 'member', 'dependency')),
    priority     integer NOT NULL,
    added_by     text NOT NULL,
    added_at     timestamptz NOT NULL,
    CONSTRAINT portfolio_members_once UNIQUE (portfolio_id, intent_id)
);

CREATE INDEX portfolio_members_by_intent ON portfolio_members (intent_id, portfolio_id);

-- A subscription to webhooks may be to what happens on the intents of a portfolio (RFC-0006).
ALTER TABLE webhook_endpoints ADD COLUMN portfolio_id uuid;
