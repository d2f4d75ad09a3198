-- Finding what belongs to one trace, on whatever intents it left something (RFC-0020). Most events have none.
-- Clients write the hexadecimal digits of a trace id in small or capital letters; the log keeps them as they were given.
CREATE INDEX events_by_trace ON events (lower(trace_id), xid, intent_id, seq) WHERE trace_id IS NOT NULL;
