-- no-transaction
-- Sweep: reservations to charge, those included that a server of the previous release has ended as expired.
CREATE INDEX CONCURRENTLY spend_reservations_to_charge ON spend_reservations (expires_at)
    WHERE charge_unsettled AND (ended_at IS NULL OR ended_as = 'expired');
