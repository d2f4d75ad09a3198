-- What each job itself has spent, by currency, also without a budget. The costs of its children are theirs.
CREATE TABLE job_costs (
    job_id   uuid NOT NULL,
    currency text NOT NULL,
    amount   numeric NOT NULL,
    PRIMARY KEY (job_id, currency)
) WITH (fillfactor = 70);
