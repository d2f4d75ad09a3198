ALTER TABLE spend_reservations
    -- Job that the call is for, whose submitter then spends.
    ADD COLUMN job_id uuid,
    -- Agents that spend, if there are several; the first one is `agent`.
    ADD COLUMN agents text[];
