-- Which releases may run on this schema. A migration that takes something away sets the floor to its own version: a release that
-- does not know it still needs what is gone, and does not start. One that only adds leaves it as it is.
CREATE TABLE schema_floor (
    -- There is one row.
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    -- The oldest migration that a release must know.
    version  bigint NOT NULL
);

INSERT INTO schema_floor (version) VALUES (0);
