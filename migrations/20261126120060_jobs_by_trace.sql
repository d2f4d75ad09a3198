-- no-transaction
-- Search for the jobs of a trace. Traces have no order that anybody asks for, and few jobs each.
CREATE INDEX CONCURRENTLY jobs_by_trace ON jobs USING hash (trace_id);
