-- The oldest release that may run on this schema. A migration that removes something sets the floor to its own version:
-- a release that does not know that migration still needs the removed object, and refuses to start. A migration that
-- only adds leaves the floor as it is. Only migrations write this table.
CREATE TABLE schema_floor (
    -- Allows one row only.
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- Oldest migration that a release must know.
    version  bigint NOT NULL
);

INSERT INTO schema_floor (version) VALUES (0);
