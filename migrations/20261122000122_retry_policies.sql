-- Retry policies (RFC-0010): how an intent is tried again after a failure.

CREATE TABLE retry_policies (
    intent_id         uuid PRIMARY KEY REFERENCES intents (id),
    id                uuid NOT NULL,
    strategy          text NOT NULL CHECK (strategy IN ('none', 'fixed', 'linear', 'exponential')),
    max_retries       integer NOT NULL,
    base_delay_ms     integer NOT NULL,
    max_delay_ms      integer NOT NULL,
    jitter            boolean NOT NULL,
    fallback_agent_id text,
    failure_threshold integer NOT NULL,
    set_by            text NOT NULL,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    -- The number on the intent's line of its last change: failures before it no longer count.
    since_seq         bigint NOT NULL,
    -- When the fallback had its turn; it has one with each change of the policy.
    handed_over_at    timestamptz
);
