-- Budgets that many jobs and agents share. The counters of single jobs are in `job_budgets`.
CREATE TABLE budgets (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    -- Whose spending it limits: a kind of subject, and its name (empty for the system).
    scope      text NOT NULL,
    subject    text NOT NULL,
    unit       text NOT NULL,
    -- total, hour, day, week or month, which begin in a time zone.
    period     text NOT NULL,
    time_zone  text NOT NULL,
    -- The limit of each window.
    amount     numeric NOT NULL CHECK (amount >= 0),
    -- JSON: what happens when shares of it are spent.
    thresholds text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    closed_at  timestamptz,
    -- Number in the system log of the last change.
    changed_seq bigint NOT NULL
);

-- Budgets that pay for an act.
CREATE INDEX budgets_open ON budgets (scope, subject) WHERE closed_at IS NULL;
-- Budgets that changed on other servers.
CREATE INDEX budgets_by_change ON budgets (changed_seq);

-- Begin of the window of a budget at a time. A budget that never begins anew has one window, since 1970.
CREATE FUNCTION budget_window_start(period text, time_zone text, at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE period WHEN 'total' THEN timestamptz 'epoch' ELSE date_trunc(period, at, time_zone) END
$$;

-- End of the window that begins at a time; null if it never ends.
CREATE FUNCTION budget_window_end(period text, time_zone text, starts_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE period WHEN 'total' THEN NULL
           ELSE (starts_at AT TIME ZONE time_zone + ('1 ' || period)::interval) AT TIME ZONE time_zone END
$$;

-- What is spent and reserved of a budget in each window. Each cost locks the rows of all budgets that pay it, in the
-- order of the key.
CREATE TABLE budget_windows (
    budget_id uuid NOT NULL REFERENCES budgets (id),
    starts_at timestamptz NOT NULL,
    -- By how much the limit was raised in this window.
    raised    numeric NOT NULL,
    spent     numeric NOT NULL,
    reserved  numeric NOT NULL,
    PRIMARY KEY (budget_id, starts_at)
) WITH (fillfactor = 50);

-- Sweep: windows past their retention.
CREATE INDEX budget_windows_by_start ON budget_windows (starts_at);

-- Parts of reservations, of jobs or of calls, that each budget holds.
CREATE TABLE budget_holds (
    reservation_id uuid NOT NULL,
    budget_id      uuid NOT NULL,
    starts_at      timestamptz NOT NULL,
    amount         numeric NOT NULL,
    PRIMARY KEY (reservation_id, budget_id)
);

-- Thresholds that were reached, once for each window and limit.
CREATE TABLE budget_reached (
    budget_id  uuid NOT NULL REFERENCES budgets (id),
    starts_at  timestamptz NOT NULL,
    percent    integer NOT NULL,
    -- The limit of which that share was spent, and what was spent.
    amount     numeric NOT NULL,
    spent      numeric NOT NULL,
    reached_at timestamptz NOT NULL,
    -- When its event was recorded, and when nothing more follows from it: a person may have to answer first.
    told_at    timestamptz,
    handled_at timestamptz,
    -- The question to a person, if one was asked.
    moment_id  uuid,
    PRIMARY KEY (budget_id, starts_at, percent, amount)
);

-- Sweep: thresholds from which more follows.
CREATE INDEX budget_reached_open ON budget_reached (reached_at) WHERE handled_at IS NULL;
-- Sweep: thresholds past their retention.
CREATE INDEX budget_reached_handled ON budget_reached (handled_at) WHERE handled_at IS NOT NULL;

-- Amounts reserved for calls that belong to no job, such as those of a model gateway.
CREATE TABLE spend_reservations (
    id           uuid PRIMARY KEY,
    principal_id text NOT NULL,
    agent        text NOT NULL,
    intent_id    uuid,
    key_id       uuid NOT NULL,
    provider     text,
    model        text,
    -- JSON: amounts by unit.
    amounts      text NOT NULL,
    -- The caller's id for the call: a repeated request gets the same reservation.
    call_id      text,
    created_at   timestamptz NOT NULL,
    -- When it is released, if nobody settles it.
    expires_at   timestamptz NOT NULL,
    -- When it was settled, released or expired; kept for a while, so that a repeated request settles nothing twice.
    ended_at     timestamptz,
    -- How it ended: settled, released or expired.
    ended_as     text
);

-- A call has one reservation.
CREATE UNIQUE INDEX spend_reservations_by_call ON spend_reservations (principal_id, call_id) WHERE call_id IS NOT NULL;
-- Sweep: reservations that nobody settled.
CREATE INDEX spend_reservations_open ON spend_reservations (expires_at) WHERE ended_at IS NULL;
-- Sweep: old reservations.
CREATE INDEX spend_reservations_ended ON spend_reservations (ended_at) WHERE ended_at IS NOT NULL;

-- Every cost once, whichever way it was reported.
CREATE TABLE spend (
    id           uuid PRIMARY KEY,
    at           timestamptz NOT NULL,
    principal_id text NOT NULL,
    agent        text NOT NULL,
    intent_id    uuid,
    key_id       uuid,
    job_id       uuid,
    provider     text,
    model        text,
    unit         text NOT NULL,
    amount       numeric NOT NULL
);

-- Reports of a time, and the sweep.
CREATE INDEX spend_by_time ON spend (at);
