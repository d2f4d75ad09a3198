-- Memory of agents (RFC-0015): entries with their earlier versions, the totals, and the changes.

-- Totals of an agent's memory, and the number of its last change. One row for each agent that ever stored anything, written
-- under the agent's advisory lock.
CREATE TABLE memory_stores (
    agent_id text PRIMARY KEY,
    entries  bigint NOT NULL,
    bytes    bigint NOT NULL,
    changes  bigint NOT NULL
);

-- Memory entries: values that agents store under keys.
CREATE TABLE memory_entries (
    id           uuid PRIMARY KEY,
    agent_id     text NOT NULL,
    -- Ordered by bytes, so that a search by prefix is a range of the index.
    namespace    text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    memory_type  text NOT NULL CHECK (memory_type IN ('working', 'episodic', 'semantic')),
    -- A JSON object, read and written whole.
    value        text NOT NULL,
    -- Its share of `memory_stores.bytes`.
    bytes        bigint NOT NULL,
    -- Intent that the entry is scoped to, and the task of that intent.
    intent_id    uuid REFERENCES intents (id),
    task_id      uuid REFERENCES tasks (id),
    tags         text[] NOT NULL,
    -- Lifetime as it was given.
    ttl          text,
    -- Exempt from eviction.
    pinned       boolean NOT NULL,
    -- 0 low, 1 normal, 2 high: the order of eviction.
    priority     smallint NOT NULL,
    sensitivity  text CHECK (sensitivity IN ('public', 'internal', 'confidential', 'restricted')),
    -- Agent that last wrote a semantic entry.
    curated_by   text,
    -- Rises with each change; guards writes (`If-Match`).
    version      bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    expires_at   timestamptz,
    -- Its task or intent has ended: the entry is read-only, and its key is free again.
    archived_at  timestamptz,
    -- Last use, written once a minute at most.
    used_at      timestamptz NOT NULL,
    -- Searched words: those of the key first, then every text and number of the value. Without a language, because agents
    -- write in all of them.
    search       tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple'::regconfig, translate(key, '/:._-', '     ')), 'A')
        || setweight(jsonb_to_tsvector('simple'::regconfig, value::jsonb, '["string", "numeric"]'::jsonb), 'B')) STORED
);

-- A key has one entry that is not archived; also finds an entry by its key, and keys by their prefix.
CREATE UNIQUE INDEX memory_by_key ON memory_entries (agent_id, namespace, key) WHERE archived_at IS NULL;
-- An agent's memory, last changed first.
CREATE INDEX memory_by_agent ON memory_entries (agent_id, updated_at DESC, id DESC);
-- Entries that readers of an intent may see, last changed first.
CREATE INDEX memory_by_intent ON memory_entries (intent_id, updated_at DESC, id DESC) WHERE intent_id IS NOT NULL;
-- Entries that end with a task.
CREATE INDEX memory_by_task ON memory_entries (task_id) WHERE task_id IS NOT NULL;
-- Entries to evict, in order: in a namespace, and among all archived ones of an agent.
CREATE INDEX memory_evictable ON memory_entries (agent_id, namespace, priority, used_at, id)
    WHERE NOT pinned AND memory_type <> 'semantic' AND archived_at IS NULL;
CREATE INDEX memory_evictable_archived ON memory_entries (agent_id, priority, used_at, id)
    WHERE NOT pinned AND memory_type <> 'semantic' AND archived_at IS NOT NULL;
-- Sweep: expired entries.
CREATE INDEX memory_by_end ON memory_entries (expires_at) WHERE expires_at IS NOT NULL;
-- Searches by tag, and by words.
CREATE INDEX memory_by_tags ON memory_entries USING gin (tags);
CREATE INDEX memory_by_words ON memory_entries USING gin (search);

-- Earlier versions of memory entries, the last few of each.
CREATE TABLE memory_versions (
    entry_id    uuid NOT NULL REFERENCES memory_entries (id) ON DELETE CASCADE,
    version     bigint NOT NULL,
    value       text NOT NULL,
    tags        text[] NOT NULL,
    pinned      boolean NOT NULL,
    priority    smallint NOT NULL,
    sensitivity text,
    ttl         text,
    expires_at  timestamptz,
    changed_by  text NOT NULL,
    changed_at  timestamptz NOT NULL,
    PRIMARY KEY (entry_id, version)
);

-- Changes of an agent's memory, the last ones up to a limit, also of deleted entries. They are not in the system log,
-- because all agents would write to that one log as often as they think (docs/adr/0009-memory-has-a-log-of-its-own.md).
CREATE TABLE memory_changes (
    agent_id    text NOT NULL,
    -- Number among the agent's changes, from 1 without gaps.
    number      bigint NOT NULL,
    what        text NOT NULL CHECK (what IN ('created', 'updated', 'deleted', 'evicted', 'expired')),
    entry_id    uuid NOT NULL,
    namespace   text NOT NULL,
    key         text NOT NULL,
    memory_type text NOT NULL,
    version     bigint NOT NULL,
    changed_by  text NOT NULL,
    changed_at  timestamptz NOT NULL,
    PRIMARY KEY (agent_id, number)
);
