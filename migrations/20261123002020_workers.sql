-- Workers: processes that run jobs (ARCP-W-11.2).
CREATE TABLE workers (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    -- Principal that registered the worker: nobody else speaks for it.
    principal     text NOT NULL,
    -- Agents whose jobs it runs, as `name@version`.
    agents        text[] NOT NULL,
    -- Maximum number of jobs that it holds at once.
    slots         integer NOT NULL,
    -- A JSON object, for people.
    labels        text NOT NULL,
    -- Told with its next heartbeat: run, quiet (claim no more jobs) or terminate.
    directive     text NOT NULL,
    -- As the worker last reported.
    state         text NOT NULL,
    registered_at timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL
);

-- Lists of workers, last seen first; and the sweep of those that are gone.
CREATE INDEX workers_by_sight ON workers (last_seen_at);
