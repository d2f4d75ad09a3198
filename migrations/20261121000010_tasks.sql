-- Tasks and plans (RFC-0012): pieces of an intent's work, and what they are taken together to.

CREATE TABLE plans (
    id          uuid PRIMARY KEY,
    intent_id   uuid NOT NULL REFERENCES intents (id),
    state       text NOT NULL CHECK (state IN ('draft', 'active', 'paused', 'completed', 'failed', 'cancelled')),
    -- Checkpoints with what has become of them, conditions and metadata: JSON, read and written whole.
    checkpoints text NOT NULL,
    conditions  text NOT NULL,
    on_failure  text NOT NULL,
    on_complete text NOT NULL,
    metadata    text NOT NULL,
    version     bigint NOT NULL,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

CREATE INDEX plans_by_intent ON plans (intent_id, id);
-- What ends with the intent.
CREATE INDEX plans_open ON plans (intent_id, id) WHERE state IN ('draft', 'active', 'paused');

CREATE TABLE tasks (
    id                    uuid PRIMARY KEY,
    intent_id             uuid NOT NULL REFERENCES intents (id),
    -- Which plan it is in, and its place in the list that the plan was given; none when it joined by itself. A plan has
    -- no list of its own, so that making a task for a plan is no change of the plan.
    plan_id               uuid REFERENCES plans (id),
    plan_place            integer,
    parent_task_id        uuid REFERENCES tasks (id),
    name                  text NOT NULL,
    description           text,
    status                text NOT NULL CHECK (status IN ('pending', 'ready', 'claimed', 'running', 'blocked',
                                                          'completed', 'failed', 'cancelled', 'skipped')),
    priority              text NOT NULL,
    -- JSON objects and lists of objects are kept as text: they are read and written whole.
    input                 text NOT NULL,
    output                text,
    artifacts             text[] NOT NULL,
    -- Who has it, who had it last, or whom it is kept for.
    assigned_agent        text,
    -- How often it was claimed: the number of the claim that holds is its token.
    claims                bigint NOT NULL,
    -- Null when nobody has the task.
    claimed_at            timestamptz,
    capabilities_required text[] NOT NULL,
    depends_on            uuid[] NOT NULL,
    retry_policy          text,
    timeout_seconds       integer,
    attempt               integer NOT NULL,
    max_attempts          integer NOT NULL,
    permissions           text NOT NULL,
    memory_policy         text,
    requires_tools        text NOT NULL,
    blocked_reason        text,
    error                 text,
    metadata              text NOT NULL,
    version               bigint NOT NULL,
    created_by            text NOT NULL,
    created_at            timestamptz NOT NULL,
    started_at            timestamptz,
    completed_at          timestamptz,
    -- When time changes it, and the status that it then has: lists by status are true before a sweep has come by.
    due_at                timestamptz,
    due_status            text
) WITH (fillfactor = 80);

CREATE INDEX tasks_by_intent ON tasks (intent_id, id);
-- What is still to be done, among however much is over: asked by every agent that looks for work.
CREATE INDEX tasks_open ON tasks (intent_id, id)
    WHERE status IN ('pending', 'ready', 'claimed', 'running', 'blocked');
CREATE INDEX tasks_by_plan ON tasks (plan_id) WHERE plan_id IS NOT NULL;
-- What waits for a task: asked whenever one is over, and for `blocks` of every task that is shown.
CREATE INDEX tasks_by_dependency ON tasks USING gin (depends_on);
-- What an agent that leaves has, or is to take.
CREATE INDEX tasks_by_agent ON tasks (assigned_agent)
    WHERE status IN ('pending', 'ready', 'claimed', 'running', 'blocked');
CREATE INDEX tasks_by_due ON tasks (due_at) WHERE due_at IS NOT NULL;
