-- Intents (RFC-0001): goals with a state, a status and a version.
CREATE TABLE intents (
    id                uuid PRIMARY KEY,
    title             text NOT NULL,
    description       text NOT NULL,
    created_by        text NOT NULL,
    parent_id         uuid,
    -- In the order in which they were given, which clients and exports see. `intent_dependencies` has the same facts for
    -- look-ups from both ends; one transaction writes both.
    depends_on        uuid[] NOT NULL,
    -- JSON objects are stored as text: they are read and written whole, and jsonb would rewrite their numbers.
    constraints       text NOT NULL,
    state             text NOT NULL,
    status            text NOT NULL,
    confidence        double precision NOT NULL,
    -- Rises with each change; guards writes (`If-Match`).
    version           bigint NOT NULL,
    governance_policy text,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL
);

-- Lists by status. Ids are ordered by age, so the newest come first when it is read backwards.
CREATE INDEX intents_by_status ON intents (status, id);
-- Children of an intent, oldest first.
CREATE INDEX intents_by_parent ON intents (parent_id, id) WHERE parent_id IS NOT NULL;
-- The dashboard's count of unfinished intents, however many are finished.
CREATE INDEX intents_open ON intents (id) WHERE status NOT IN ('completed', 'abandoned');
