-- When the log of an intent was last told that an agent broke a rule of its governance policy (RFC-0013): an agent that
-- tries again and again is told of once a minute. Rows older than that are taken away with the next one.

CREATE TABLE governance_violations (
    intent_id uuid NOT NULL REFERENCES intents (id),
    agent     text NOT NULL,
    rule      text NOT NULL,
    told_at   timestamptz NOT NULL,
    PRIMARY KEY (intent_id, agent, rule)
);

CREATE INDEX governance_violations_by_age ON governance_violations (intent_id, told_at);
