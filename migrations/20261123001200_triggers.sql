-- Triggers (RFC-0017), their firings, the intents that they created, and the position up to which the logs were read for
-- them.

-- Triggers: they create intents when a condition is met. A removed one is hidden at once; its firings stay for their
-- retention time.
CREATE TABLE triggers (
    id               uuid PRIMARY KEY,
    principal_id     text NOT NULL,
    -- The trigger creates intents as this agent, with the powers of `key_id` or of a key that it was rotated to. If none of
    -- them is in force, it creates none.
    agent_id         text NOT NULL,
    key_id           uuid NOT NULL,
    name             text NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('schedule', 'event', 'webhook')),
    enabled          boolean NOT NULL,
    disabled_reason  text,
    -- JSON objects are stored as text, as everywhere; never with the secret.
    condition        text,
    template         text,
    -- Type of the created intents, which deduplication compares: the template's, or else the trigger's own id.
    makes            text NOT NULL,
    deduplication    text NOT NULL CHECK (deduplication IN ('allow', 'skip', 'queue')),
    namespace        text,
    cooldown_seconds integer,
    max_fires        bigint,
    max_depth        integer NOT NULL,
    fire_count       bigint NOT NULL,
    failures         integer NOT NULL,
    -- Rises with each change; guards writes (`If-Match`).
    version          bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    last_fired_at    timestamptz,
    -- Next due time; null if it waits for no time, or is disabled.
    next_due         timestamptz,
    -- Type of the events that it matches; null if that is a pattern, or if it matches none.
    event_type       text,
    -- Whether it matches events.
    listens          boolean NOT NULL,
    -- The trigger matches the events of later transactions than the one that created or re-enabled it.
    hears_after      bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    -- Of webhooks, in clear, because the verifier must know it. No list and no log shows it.
    secret           text,
    removed_at       timestamptz
);

-- Lists of an owner's triggers.
CREATE INDEX triggers_by_owner ON triggers (principal_id, id) WHERE removed_at IS NULL;
-- Sweep: due triggers.
CREATE INDEX triggers_due ON triggers (next_due) WHERE next_due IS NOT NULL AND enabled AND removed_at IS NULL;
-- Triggers that an event may match.
CREATE INDEX triggers_listening ON triggers (event_type) WHERE listens AND enabled AND removed_at IS NULL;
-- Sweep: removed triggers.
CREATE INDEX triggers_removed ON triggers (removed_at) WHERE removed_at IS NOT NULL;

-- Firings: one row for each time that a trigger was due, with the result.
CREATE TABLE trigger_firings (
    id            uuid PRIMARY KEY,
    -- Order in which firings were recorded: several can have the same time.
    number        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    trigger_id    uuid NOT NULL,
    cause         text NOT NULL CHECK (cause IN ('due', 'event', 'webhook', 'hand')),
    -- The time in microseconds, the event, or the delivery.
    cause_key     text NOT NULL,
    -- heard: an event to fire for. waiting: an intent of the type is still open. Both are still to run.
    status        text NOT NULL CHECK (status IN ('heard', 'waiting', 'fired', 'skipped', 'failed')),
    -- Why no intent was created: a code, and the same for people.
    reason        text,
    detail        text,
    -- The created intent.
    intent_id     uuid,
    due_at        timestamptz,
    -- The event: its intent, and its number in the intent's log.
    source_intent uuid,
    source_seq    bigint,
    -- Agent that fired it by hand.
    fired_by      text,
    -- Values for the template, as JSON, while the firing is still to run.
    brought       text,
    created_at    timestamptz NOT NULL,
    done_at       timestamptz,
    -- A trigger fires once for a cause, whichever server finds it and however often a delivery comes.
    CONSTRAINT trigger_firings_once UNIQUE (trigger_id, cause, cause_key)
);

-- Lists of a trigger's firings.
CREATE INDEX trigger_firings_log ON trigger_firings (trigger_id, number);
-- Firings to run, in their order.
CREATE INDEX trigger_firings_open ON trigger_firings (number) WHERE status IN ('heard', 'waiting');
-- Firings of a trigger that are still to run.
CREATE INDEX trigger_firings_waiting ON trigger_firings (trigger_id, status) WHERE status IN ('heard', 'waiting');
-- Rate of a trigger: its firings of late.
CREATE INDEX trigger_firings_recent ON trigger_firings (trigger_id, created_at);
-- Sweep: firings after their retention time.
CREATE INDEX trigger_firings_by_age ON trigger_firings (created_at) WHERE status NOT IN ('heard', 'waiting');

-- Intents that triggers created. A row stays as long as its intent.
CREATE TABLE trigger_intents (
    intent_id    uuid PRIMARY KEY,
    trigger_id   uuid NOT NULL,
    principal_id text NOT NULL,
    -- `makes` and `namespace` of the trigger at that time: deduplication compares both.
    type         text NOT NULL,
    namespace    text,
    -- Triggers that led to the intent, one after another; the last one created it.
    chain        uuid[] NOT NULL,
    -- The intent has not ended.
    open         boolean NOT NULL
);

-- Open intents of a type, for deduplication.
CREATE INDEX trigger_intents_open ON trigger_intents (principal_id, type) WHERE open;

-- Position among all logs up to which events were matched with triggers (ARCHITECTURE.md, "One order").
CREATE TABLE trigger_cursor (
    -- Allows one row only.
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Null while no trigger matches events: then nothing is read, and the next trigger starts from its own creation.
    xid       bigint,
    intent_id uuid,
    seq       bigint
);

INSERT INTO trigger_cursor (one, xid, intent_id, seq) VALUES (true, NULL, NULL, NULL);
