-- What the signature of an envelope binds (AEE §8): `core`, the ten members that the draft names, so that `priority` and
-- `requires` are nobody's word; null, everything but itself, or there is no signature.
ALTER TABLE aee_envelopes ADD COLUMN sig_scope text;

-- Those that were taken in before say so themselves.
UPDATE aee_envelopes SET sig_scope = 'core' WHERE verified_by = 'sig' AND body::json #>> '{sig,scope}' = 'core';
