-- Graphs of intents (RFC-0002): dependencies between intents, for look-ups from both ends. `intents.depends_on` has the
-- same facts in the order in which they were given; one transaction writes both.
CREATE TABLE intent_dependencies (
    -- The intent that waits, and the one that it waits for.
    intent_id     uuid NOT NULL,
    dependency_id uuid NOT NULL,
    PRIMARY KEY (intent_id, dependency_id)
);

-- Dependents of an intent.
CREATE INDEX intent_dependencies_back ON intent_dependencies (dependency_id, intent_id);

-- Adds the dependencies of a new intent, also for a writer that fills the column alone. It is here and not in the file of
-- `intents`, because it needs both tables.
CREATE FUNCTION intents_take_dependencies() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO intent_dependencies (intent_id, dependency_id)
    SELECT NEW.id, d FROM unnest(NEW.depends_on) AS d ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

CREATE TRIGGER intents_take_dependencies AFTER INSERT ON intents
    FOR EACH ROW WHEN (cardinality(NEW.depends_on) > 0) EXECUTE FUNCTION intents_take_dependencies();
