-- Ids of envelopes that are no longer kept and whose `ts` named no moment (AEE §11.1). Their age cannot be judged, so nothing
-- else would keep one of them from being taken in again. Never taken away; nothing of what was said stands here.
CREATE TABLE aee_untimed (
    -- SHA-256 of the id.
    digest bytea PRIMARY KEY
);
