-- Agents' memory (RFC-0015).

-- One row per agent that ever kept something, written under the agent's advisory lock: what it has, and how many changes
-- there were, which numbers them.
CREATE TABLE memory_stores (
    agent_id text PRIMARY KEY,
    entries  bigint NOT NULL,
    bytes    bigint NOT NULL,
    changes  bigint NOT NULL
);

CREATE TABLE memory_entries (
    id           uuid PRIMARY KEY,
    agent_id     text NOT NULL,
    -- In the order of their bytes, so that a search by prefix is a range of the index.
    namespace    text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    memory_type  text NOT NULL CHECK (memory_type IN ('working', 'episodic', 'semantic')),
    -- A JSON object, read and written whole.
    value        text NOT NULL,
    -- What it counts for in memory_stores.
    bytes        bigint NOT NULL,
    intent_id    uuid REFERENCES intents (id),
    -- A task of that intent.
    task_id      uuid REFERENCES tasks (id),
    tags         text[] NOT NULL,
    ttl          text,
    pinned       boolean NOT NULL,
    -- 0 low, 1 normal, 2 high: the order in which entries are evicted.
    priority     smallint NOT NULL,
    sensitivity  text CHECK (sensitivity IN ('public', 'internal', 'confidential', 'restricted')),
    curated_by   text,
    version      bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    expires_at   timestamptz,
    -- What it was for is over: it is only kept to be read, and its key is free again.
    archived_at  timestamptz,
    -- Written down once a minute at the most.
    used_at      timestamptz NOT NULL,
    -- What is searched: the key's parts first, then every text and number of the value. No language: agents write in all.
    search       tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple'::regconfig, translate(key, '/:._-', '     ')), 'A')
        || setweight(jsonb_to_tsvector('simple'::regconfig, value::jsonb, '["string", "numeric"]'::jsonb), 'B')) STORED
);

-- One entry in force for each key; by which a key is found, and those that begin alike.
CREATE UNIQUE INDEX memory_by_key ON memory_entries (agent_id, namespace, key) WHERE archived_at IS NULL;
-- An agent's memory, what was changed last first.
CREATE INDEX memory_by_agent ON memory_entries (agent_id, updated_at DESC, id DESC);
-- What those who can read an intent see.
CREATE INDEX memory_by_intent ON memory_entries (intent_id, updated_at DESC, id DESC) WHERE intent_id IS NOT NULL;
-- What ends with a task.
CREATE INDEX memory_by_task ON memory_entries (task_id) WHERE task_id IS NOT NULL;
-- What goes first when there is no room: in a namespace, and of what an agent has archived in any.
CREATE INDEX memory_evictable ON memory_entries (agent_id, namespace, priority, used_at, id)
    WHERE NOT pinned AND memory_type <> 'semantic' AND archived_at IS NULL;
CREATE INDEX memory_evictable_archived ON memory_entries (agent_id, priority, used_at, id)
    WHERE NOT pinned AND memory_type <> 'semantic' AND archived_at IS NOT NULL;
CREATE INDEX memory_by_end ON memory_entries (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memory_by_tags ON memory_entries USING gin (tags);
CREATE INDEX memory_by_words ON memory_entries USING gin (search);

-- What an entry was before: the last few versions.
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

-- What happened to an agent's memory: the last so many changes, also of what is gone. The house's line has none of it: all
-- agents would write to that one line, as often as they think.
CREATE TABLE memory_changes (
    agent_id    text NOT NULL,
    -- From 1 without gaps.
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
