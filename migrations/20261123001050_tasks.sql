-- Tasks (RFC-0012): pieces of an intent's work.
CREATE TABLE tasks (
    id                    uuid PRIMARY KEY,
    intent_id             uuid NOT NULL REFERENCES intents (id),
    -- Plan of the task, and its place in the list that the plan was given. A task that joined by itself has no place.
    plan_id               uuid REFERENCES plans (id),
    plan_place            integer,
    parent_task_id        uuid REFERENCES tasks (id),
    name                  text NOT NULL,
    description           text,
    -- As last written; `due_status` is the status from `due_at` on.
    status                text NOT NULL CHECK (status IN ('pending', 'ready', 'claimed', 'running', 'blocked',
                                                          'completed', 'failed', 'cancelled', 'skipped')),
    priority              text NOT NULL,
    -- JSON objects, and lists of objects, are stored as text: they are read and written whole.
    input                 text NOT NULL,
    output                text,
    artifacts             text[] NOT NULL,
    -- Agent that has the task, had it last, or that it is reserved for.
    assigned_agent        text,
    -- Number of claims; that of the current claim is its fencing token.
    claims                bigint NOT NULL,
    -- Null while no agent has the task.
    claimed_at            timestamptz,
    capabilities_required text[] NOT NULL,
    -- Tasks that must be completed before this one.
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
    -- Rises with each change that somebody makes; guards writes (`If-Match`).
    version               bigint NOT NULL,
    created_by            text NOT NULL,
    created_at            timestamptz NOT NULL,
    started_at            timestamptz,
    completed_at          timestamptz,
    -- Next effect of time, and the status from then on, so that lists by status are right before a sweep records it.
    due_at                timestamptz,
    due_status            text
) WITH (fillfactor = 80);

-- Lists of an intent's tasks.
CREATE INDEX tasks_by_intent ON tasks (intent_id, id);
-- Unfinished tasks among all finished ones: every agent that looks for work asks for them.
CREATE INDEX tasks_open ON tasks (intent_id, id)
    WHERE status IN ('pending', 'ready', 'claimed', 'running', 'blocked');
-- Tasks of a plan.
CREATE INDEX tasks_by_plan ON tasks (plan_id) WHERE plan_id IS NOT NULL;
-- Dependents of a task: asked when a task ends, and for the `blocks` of every task that is shown.
CREATE INDEX tasks_by_dependency ON tasks USING gin (depends_on);
-- Tasks of an agent that leaves: those that it has, and those reserved for it.
CREATE INDEX tasks_by_agent ON tasks (assigned_agent)
    WHERE status IN ('pending', 'ready', 'claimed', 'running', 'blocked');
-- Sweep: due effects of time.
CREATE INDEX tasks_by_due ON tasks (due_at) WHERE due_at IS NOT NULL;
