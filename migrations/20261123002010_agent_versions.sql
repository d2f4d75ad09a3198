-- Versions of the agents that run jobs (ARCP §7.5). A version exists whether or not a worker is connected.
CREATE TABLE agent_versions (
    name          text NOT NULL,
    version       text NOT NULL,
    -- Agent that registered the name first: nobody else adds versions or claims its jobs.
    owner         text NOT NULL,
    is_default    boolean NOT NULL,
    -- Whether a job without `model.use` may use no model (§9.7).
    needs_model   boolean NOT NULL,
    -- Maximum duration of a job in seconds.
    max_runtime   integer,
    -- Treatment of a job whose worker was lost, and the number of attempts after which it fails all the same.
    on_lost       text NOT NULL,
    max_attempts  integer NOT NULL,
    registered_at timestamptz NOT NULL,
    PRIMARY KEY (name, version)
);
