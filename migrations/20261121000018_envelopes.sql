-- AEE 1: a post office of signed envelopes. An envelope is kept as the text it came in and is never changed; whatever the
-- gateway adds stands beside it.

CREATE TABLE aee_mailboxes (
    entity     text PRIMARY KEY,
    -- Who opened it; null when it opened itself, for a principal or an agent that was written to.
    opened_by  text,
    created_at timestamptz NOT NULL,
    -- The number of its last item. Its row's lock makes the order of numbers the order in which they become visible.
    last_seq   bigint NOT NULL DEFAULT 0,
    -- Everything up to here was taken out.
    acked_seq  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);

CREATE TABLE aee_envelopes (
    -- The sender's own id. Unique for as long as it is kept, which is never shorter than an envelope with this id could
    -- still be taken in (AEE §11.1).
    id                 text PRIMARY KEY,
    type               text NOT NULL CHECK (type IN ('task', 'result', 'event', 'error', 'stream')),
    sender             text NOT NULL,
    recipient          text NOT NULL,
    -- AEE's `intent`.
    purpose            text NOT NULL,
    corr               text NOT NULL,
    reply_to           text,
    priority           text NOT NULL,
    sent_at            timestamptz,
    received_at        timestamptz NOT NULL,
    -- Whose key it came with; null for the gateway's own.
    principal_id       text,
    -- What vouches for its sender, and with which key.
    verified_by        text NOT NULL CHECK (verified_by IN ('sig', 'token', 'gateway')),
    kid                text,
    -- The first receipt, for whoever sends the same again.
    status             text NOT NULL CHECK (status IN ('accepted', 'held', 'answered')),
    effective_priority text NOT NULL,
    deadline           timestamptz,
    warnings           text[] NOT NULL,
    -- Its number in its recipient's mailbox; null for a channel's, one that is held and one that was answered at once.
    seq                bigint,
    -- In how many mailboxes it was put.
    delivered          integer NOT NULL,
    -- The envelope that the gateway made this one from, leaving something out (AEE §11.5), or that it answers for another.
    original_id        text,
    body               text NOT NULL,
    -- SHA-256 of the body: a retry is one of the same bytes.
    digest             bytea NOT NULL
);

CREATE INDEX aee_envelopes_by_thread ON aee_envelopes (corr, received_at, id);
CREATE INDEX aee_envelopes_by_age ON aee_envelopes (received_at);
CREATE INDEX aee_envelopes_by_original ON aee_envelopes (original_id) WHERE original_id IS NOT NULL;

CREATE TABLE aee_items (
    entity      text NOT NULL,
    seq         bigint NOT NULL,
    envelope_id text NOT NULL,
    received_at timestamptz NOT NULL,
    effective_priority text NOT NULL,
    -- When it is its turn among what waits: earlier than it came by as much as its priority is worth.
    rank        timestamptz NOT NULL,
    -- Whoever picked it has until then to take it out.
    held_until  timestamptz,
    acked_at    timestamptz,
    PRIMARY KEY (entity, seq)
) WITH (fillfactor = 80);

CREATE INDEX aee_items_by_rank ON aee_items (entity, rank, seq) WHERE acked_at IS NULL;
CREATE INDEX aee_items_by_envelope ON aee_items (envelope_id, entity);

-- A task and one who is to answer it.
CREATE TABLE aee_pairs (
    task_id    text NOT NULL,
    respondent text NOT NULL,
    asker      text NOT NULL,
    corr       text NOT NULL,
    status     text NOT NULL CHECK (status IN ('held', 'open', 'closed', 'timed_out')),
    deadline   timestamptz,
    -- What ended it.
    ended_by   text,
    created_at timestamptz NOT NULL,
    -- A person who has to agree first, and what they said (AEE §3, `requires.human_approval`).
    approver   text,
    decided_by text,
    decided_at timestamptz,
    PRIMARY KEY (task_id, respondent)
) WITH (fillfactor = 80);

CREATE INDEX aee_pairs_due ON aee_pairs (deadline) WHERE status IN ('open', 'held') AND deadline IS NOT NULL;
CREATE INDEX aee_pairs_held ON aee_pairs (created_at, task_id) WHERE status = 'held';

CREATE TABLE aee_subscriptions (
    bus        text NOT NULL,
    entity     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (bus, entity)
);

CREATE INDEX aee_subscriptions_by_entity ON aee_subscriptions (entity, bus);

CREATE TABLE aee_keys (
    entity     text NOT NULL,
    kid        text NOT NULL,
    algorithm  text NOT NULL CHECK (algorithm IN ('ed25519', 'HS256')),
    -- The public half; or, for HS256, the secret in clear, because what checks must know it. No list and no log has it.
    material   bytea NOT NULL,
    not_before timestamptz NOT NULL,
    not_after  timestamptz,
    revoked_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    -- A revoked key stays: its name is never anybody else's again.
    PRIMARY KEY (entity, kid)
);

CREATE TABLE aee_schemas (
    purpose    text NOT NULL,
    type       text NOT NULL CHECK (type IN ('task', 'result', 'error')),
    -- As it was published.
    schema     text NOT NULL,
    -- What happens to a payload that does not fit.
    policy     text NOT NULL CHECK (policy IN ('off', 'warn', 'enforce')),
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (purpose, type)
);

-- What may pass between whom (AEE §11.5).
CREATE TABLE aee_rules (
    name       text PRIMARY KEY,
    rule       text NOT NULL,
    updated_by text NOT NULL,
    updated_at timestamptz NOT NULL
);

-- One row: rises with each change of rules and schemas, so that every server notices at its next commit.
CREATE TABLE aee_version (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);

INSERT INTO aee_version VALUES (true, 0);

-- Log lines (AEE §7.2): never delivered.
CREATE TABLE aee_logs (
    seq          bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    principal_id text NOT NULL,
    id           text NOT NULL,
    type         text NOT NULL,
    sender       text NOT NULL,
    purpose      text NOT NULL,
    corr         text,
    received_at  timestamptz NOT NULL,
    body         text NOT NULL
);

CREATE INDEX aee_logs_by_principal ON aee_logs (principal_id, seq);
CREATE INDEX aee_logs_by_age ON aee_logs (received_at);

-- What somebody rejects of what was said to them (`aee.context.refute`).
CREATE TABLE aee_refutations (
    envelope_id text NOT NULL,
    entity      text NOT NULL,
    reason      text NOT NULL,
    at          timestamptz NOT NULL,
    PRIMARY KEY (envelope_id, entity)
);

-- What is carried between envelopes, jobs and messages, by explicit configuration.
CREATE TABLE aee_bridges (
    name       text PRIMARY KEY,
    bridge     text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL
);

-- What a bridge has carried: each source once, whatever dies in between.
CREATE TABLE aee_bridged (
    bridge     text NOT NULL,
    source     text NOT NULL,
    target     text NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (bridge, source)
);
CREATE INDEX aee_bridged_by_target ON aee_bridged (target);
