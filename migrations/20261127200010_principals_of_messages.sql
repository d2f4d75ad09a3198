-- Whose quota of stored bytes a message counts for. Null: its sender's, which is that principal or one of its agents.

-- Principal whose key sent it, if that is not the sender.
ALTER TABLE messages ADD COLUMN principal_id text;
