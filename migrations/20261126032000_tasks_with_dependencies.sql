-- no-transaction
-- Dependents of a task: asked when a task ends, and for the `blocks` of every task that is shown. Most tasks depend on
-- nothing and have no entry. Entries are written at once: a list of pending ones would be read by every search.
CREATE INDEX CONCURRENTLY tasks_with_dependencies ON tasks USING gin (depends_on) WITH (fastupdate = off)
    WHERE depends_on <> '{}';
