-- Portfolios (RFC-0004): sets of intents that somebody watches together. They give no access to anything.

-- Portfolios, each visible to its owner and to admins only.
CREATE TABLE portfolios (
    id                uuid PRIMARY KEY,
    name              text NOT NULL,
    description       text,
    -- The agent that owns the portfolio.
    created_by        text NOT NULL,
    status            text NOT NULL CHECK (status IN ('active', 'completed', 'abandoned')),
    -- JSON objects are stored as text, like those of intents.
    governance_policy text NOT NULL,
    metadata          text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL
);

-- Lists of an owner's portfolios.
CREATE INDEX portfolios_by_creator ON portfolios (created_by, id);

-- Intents of portfolios.
CREATE TABLE portfolio_members (
    id           uuid PRIMARY KEY,
    portfolio_id uuid NOT NULL REFERENCES portfolios (id),
    intent_id    uuid NOT NULL REFERENCES intents (id),
    role         text NOT NULL CHECK (role IN ('primary', 'member', 'dependency')),
    priority     integer NOT NULL,
    added_by     text NOT NULL,
    added_at     timestamptz NOT NULL,
    -- An intent is in a portfolio once.
    CONSTRAINT portfolio_members_once UNIQUE (portfolio_id, intent_id)
);

-- Portfolios of an intent.
CREATE INDEX portfolio_members_by_intent ON portfolio_members (intent_id, portfolio_id);
