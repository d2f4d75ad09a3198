-- How many channels of envelopes a principal listens to in all is bounded: they are counted with each new one.
CREATE INDEX aee_subscriptions_by_creator ON aee_subscriptions (created_by);
