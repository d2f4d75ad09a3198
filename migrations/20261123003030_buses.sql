-- Subscriptions of entities to buses (AEE §5.2): an envelope to a bus is put into the mailbox of each subscriber.
CREATE TABLE aee_subscriptions (
    bus        text NOT NULL,
    entity     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (bus, entity)
);

-- Buses of an entity.
CREATE INDEX aee_subscriptions_by_entity ON aee_subscriptions (entity, bus);
-- Number of a principal's subscriptions, which is limited and counted with each new one.
CREATE INDEX aee_subscriptions_by_creator ON aee_subscriptions (created_by);
