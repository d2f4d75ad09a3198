-- Budgets of jobs (ARCP §9.6): counters and reservations.

-- Remaining budget of each job, one exact decimal for each currency.
CREATE TABLE job_budgets (
    job_id    uuid NOT NULL,
    currency  text NOT NULL,
    remaining numeric NOT NULL,
    PRIMARY KEY (job_id, currency)
) WITH (fillfactor = 50);

-- Amounts reserved before they are spent. They are taken off the counters, and put back when a reservation is released.
CREATE TABLE job_reservations (
    id         uuid PRIMARY KEY,
    job_id     uuid NOT NULL,
    -- Attempt that made the reservation, which ends with it.
    attempt    integer NOT NULL,
    -- JSON: amounts by currency.
    amounts    text NOT NULL,
    -- Call that it is for: a repeated request in the same attempt gets the same reservation.
    call_id    text,
    created_at timestamptz NOT NULL
);

-- Reservations of a job.
CREATE INDEX job_reservations_by_job ON job_reservations (job_id);
