-- Recent violations of governance policies (RFC-0013): when an intent's log last recorded that an agent broke a rule. A
-- repeated violation is recorded once a minute; the next violation deletes the rows that are older.
CREATE TABLE governance_violations (
    intent_id uuid NOT NULL REFERENCES intents (id),
    agent     text NOT NULL,
    rule      text NOT NULL,
    told_at   timestamptz NOT NULL,
    PRIMARY KEY (intent_id, agent, rule)
);

-- Rows of an intent that are older than a minute.
CREATE INDEX governance_violations_by_age ON governance_violations (intent_id, told_at);
