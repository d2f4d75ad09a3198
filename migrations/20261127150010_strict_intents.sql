-- Whether each write of an agent on the intent has to name the epoch of the agent's session.
ALTER TABLE acls ADD COLUMN strict boolean NOT NULL DEFAULT false;
