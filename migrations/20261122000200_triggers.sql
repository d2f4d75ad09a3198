-- Triggers (RFC-0017): what makes intents by itself, what it has made, and how far the log was read for it.

CREATE TABLE triggers (
    id               uuid PRIMARY KEY,
    principal_id     text NOT NULL,
    -- As whom it makes intents, by the powers of this key or of one that it was rotated to: when none of them is in force,
    -- it makes none.
    agent_id         text NOT NULL,
    key_id           uuid NOT NULL,
    name             text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('schedule', 'event', 'webhook')),
    enabled          boolean NOT NULL,
    disabled_reason  text,
    -- JSON objects are kept as text, as everywhere; never with the secret.
    condition        text,
    template         text,
    -- What the template calls its intents; deduplication goes by it.
    makes            text NOT NULL,
    deduplication    text NOT NULL CHECK (deduplication IN ('allow', 'skip', 'queue')),
    namespace        text,
    cooldown_seconds integer,
    max_fires        bigint,
    max_depth        integer NOT NULL,
    fire_count       bigint NOT NULL,
    failures         integer NOT NULL,
    version          bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    last_fired_at    timestamptz,
    -- When it is due; null when it waits for no time, or is switched off.
    next_due         timestamptz,
    -- The type of event that it listens to; null when that is a pattern, or it listens to none.
    event_type       text,
    -- It listens at all.
    listens          boolean NOT NULL,
    -- It hears what later transactions write than the one that made it, or switched it on again.
    hears_after      bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- Of webhooks, in clear: what verifies must be known to who verifies. No list and no log has it.
    secret           text,
    -- Out of sight at once; its firings stay as long as they would have.
    removed_at       timestamptz
);

CREATE INDEX triggers_by_owner ON triggers (principal_id, id) WHERE removed_at IS NULL;
CREATE INDEX triggers_due ON triggers (next_due) WHERE next_due IS NOT NULL AND enabled AND removed_at IS NULL;
CREATE INDEX triggers_listening ON triggers (event_type) WHERE listens AND enabled AND removed_at IS NULL;
CREATE INDEX triggers_removed ON triggers (removed_at) WHERE removed_at IS NOT NULL;

-- One row for each time that a trigger was due. What it was due for stands in it once, whoever looks: so nothing is done
-- twice by two servers, or for the same delivery.
CREATE TABLE trigger_firings (
    id          uuid PRIMARY KEY,
    -- The order in which they were written down: several can be of one instant.
    number      bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    trigger_id  uuid NOT NULL,
    cause       text NOT NULL CHECK (cause IN ('due', 'event', 'webhook', 'hand')),
    -- The time in microseconds, the event, the delivery.
    cause_key   text NOT NULL,
    -- heard: an event to fire for. waiting: an intent of the type is still open. Both are yet to be done.
    status      text NOT NULL CHECK (status IN ('heard', 'waiting', 'fired', 'skipped', 'failed')),
    -- Why none was made: a word, and what a person needs to know.
    reason      text,
    detail      text,
    -- What was made.
    intent_id   uuid,
    due_at      timestamptz,
    -- Where the event is.
    source_intent uuid,
    source_seq  bigint,
    -- Who did it by hand.
    fired_by    text,
    -- What came with it, while it is yet to be done.
    brought     text,
    created_at  timestamptz NOT NULL,
    done_at     timestamptz,
    CONSTRAINT trigger_firings_once UNIQUE (trigger_id, cause, cause_key)
);

CREATE INDEX trigger_firings_log ON trigger_firings (trigger_id, number);
CREATE INDEX trigger_firings_open ON trigger_firings (number) WHERE status IN ('heard', 'waiting');
CREATE INDEX trigger_firings_waiting ON trigger_firings (trigger_id, status) WHERE status IN ('heard', 'waiting');
CREATE INDEX trigger_firings_recent ON trigger_firings (trigger_id, created_at);
CREATE INDEX trigger_firings_by_age ON trigger_firings (created_at) WHERE status NOT IN ('heard', 'waiting');

-- The intents that triggers made, and whose doing each of them is. It stays as long as the intent.
CREATE TABLE trigger_intents (
    intent_id    uuid PRIMARY KEY,
    trigger_id   uuid NOT NULL,
    principal_id text NOT NULL,
    -- What the template calls it, and where the trigger belonged: deduplication goes by both.
    type         text NOT NULL,
    namespace    text,
    -- The triggers in a row that led to it, the last one its own.
    chain        uuid[] NOT NULL,
    -- It has not come to its end yet.
    open         boolean NOT NULL
);

CREATE INDEX trigger_intents_open ON trigger_intents (principal_id, type) WHERE open;

-- One row: the place among all lines up to which the log was read for event triggers (ARCHITECTURE.md, "One order").
CREATE TABLE trigger_cursor (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Null while nobody listens: then nothing is read, and the next trigger begins with itself.
    xid       bigint,
    intent_id uuid,
    seq       bigint
);

INSERT INTO trigger_cursor VALUES (true, NULL, NULL, NULL);
