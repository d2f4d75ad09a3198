-- Graphs of intents (RFC-0002): which intents wait for which, to be looked up from both ends. What an intent depends on
-- also stands in its own row, in the order in which it was said: that is what clients and exports are shown, and both are
-- written in one transaction (src/app/graphs/rows.rs, src/app/intents.rs).

CREATE TABLE intent_dependencies (
    -- Who waits.
    intent_id     uuid NOT NULL,
    -- For whom.
    dependency_id uuid NOT NULL,
    PRIMARY KEY (intent_id, dependency_id)
);

CREATE INDEX intent_dependencies_back ON intent_dependencies (dependency_id, intent_id);

-- The release before this one knows the column alone. While it still serves, what it writes is taken over; to be taken
-- away one release later.
CREATE FUNCTION intents_take_dependencies() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO intent_dependencies (intent_id, dependency_id)
    SELECT NEW.id, d FROM unnest(NEW.depends_on) AS d ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER intents_take_dependencies AFTER INSERT ON intents
    FOR EACH ROW WHEN (cardinality(NEW.depends_on) > 0) EXECUTE FUNCTION intents_take_dependencies();

INSERT INTO intent_dependencies (intent_id, dependency_id)
SELECT DISTINCT i.id, d FROM intents i, unnest(i.depends_on) AS d
ON CONFLICT DO NOTHING;

-- An intent's parts, oldest first.
CREATE INDEX intents_by_parent ON intents (parent_id, id) WHERE parent_id IS NOT NULL;
