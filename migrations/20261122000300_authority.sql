-- On what a person's key rests, so that what somebody else made for a person decides nothing before that person has taken it
-- over; and whose key asked for what a person answers. Only columns that may be null are added: a server of the release before
-- goes on writing its rows without them, and what has none was noted by nobody.

-- How a person's key came about (`entente_core::authority::Basis`), and who made what first let the person in. Null for keys of
-- agents and services; a person's key without it decides nothing.
ALTER TABLE keys ADD COLUMN basis text, ADD COLUMN let_in_by text;

ALTER TABLE passwords
    -- The time at which the person chose it: it is their own as long as that is `set_at`. A server of the release before moves
    -- only the latter, so what is set there is never taken for the person's own.
    ADD COLUMN own_at timestamptz,
    -- Who made what first let the person in who chose it.
    ADD COLUMN let_in_by text;

-- Who lets the person in with it, where that is not `made_by`: people make links for themselves too.
ALTER TABLE links ADD COLUMN let_in_by text;

-- On what the key of the answer rested.
ALTER TABLE moments ADD COLUMN resolver_basis text, ADD COLUMN resolver_let_in_by text;

-- The principal of the key that asked: a key may have many names.
ALTER TABLE suspensions ADD COLUMN asked_by_principal text;
ALTER TABLE escalations ADD COLUMN escalated_by_principal text;
ALTER TABLE permits ADD COLUMN requested_by_principal text;
