-- no-transaction
DROP INDEX CONCURRENTLY IF EXISTS tasks_by_dependency;
