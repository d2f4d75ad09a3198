-- What happens to the amounts when nobody settles the reservation in time: they are charged, or released.
ALTER TABLE spend_reservations ADD COLUMN charge_unsettled boolean NOT NULL DEFAULT false;
