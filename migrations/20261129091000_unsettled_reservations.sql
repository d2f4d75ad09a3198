ALTER TABLE spend_reservations
    -- What happens to the amounts when nobody settles the reservation in time: they are charged, or released.
    ADD COLUMN charge_unsettled boolean NOT NULL DEFAULT false,
    -- When they were charged for that reason; it is settled then, and a later cost charges only what is above.
    ADD COLUMN charged_at timestamptz;
