-- Retry policies of intents (RFC-0010): number, pauses and fallback of the attempts at an intent.
CREATE TABLE retry_policies (
    intent_id         uuid PRIMARY KEY REFERENCES intents (id),
    -- Kept when the policy is replaced.
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
    -- Number in the intent's log of the last change: earlier failures no longer count.
    since_seq         bigint NOT NULL,
    -- When the fallback agent was assigned; a change of the policy allows it again.
    handed_over_at    timestamptz
);
