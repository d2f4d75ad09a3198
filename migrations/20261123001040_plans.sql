-- Plans (RFC-0012): tasks of an intent that are worked on together. A plan has no list of its tasks, so that adding a task
-- does not change the plan; the tasks name their plan.
CREATE TABLE plans (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    state       text NOT NULL CHECK (state IN ('draft', 'active', 'paused', 'completed', 'failed', 'cancelled')),
    -- Checkpoints with their decisions, conditions and metadata: JSON, read and written whole.
    checkpoints text NOT NULL,
    conditions  text NOT NULL,
    on_failure  text NOT NULL,
    on_complete text NOT NULL,
    metadata    text NOT NULL,
    -- Rises with each change of the plan itself; guards writes (`If-Match`).
    version     bigint NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

-- Lists of an intent's plans.
CREATE INDEX plans_by_intent ON plans (intent_id, id);
-- Plans that end with their intent.
CREATE INDEX plans_open ON plans (intent_id, id) WHERE state IN ('draft', 'active', 'paused');
