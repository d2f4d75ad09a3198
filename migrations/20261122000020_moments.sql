-- Binding moments: questions that an agent puts before a person, their answers, and what is said in between. A moment is a row
-- that moves through its states; who asked and who was asked never change.

CREATE TABLE moments (
    id                 uuid PRIMARY KEY,
    -- Who asks.
    agent_id           text NOT NULL,
    -- The one person who is asked.
    principal_id       text NOT NULL,
    -- Who is asked too when nobody has answered until then, and since when that is so.
    escalate_to        text,
    escalate_at        timestamptz,
    escalated_at       timestamptz,
    -- Which revision of the memo its slots are of.
    profile            text NOT NULL,
    -- The eight slots, canonical JSON. Null when the content was scrubbed, and for a deliberation without a question.
    brief              text,
    -- SHA-256 of the slots, `sha256:` and hexadecimal; stays when they are scrubbed.
    digest             text,
    -- What a surface shows that cannot show the slots.
    fallback_text      text,
    decision_class     text,
    hatch_free_text    boolean NOT NULL,
    hatch_dialogue     boolean NOT NULL,
    -- Why a hatch is closed, in the agent's words (binding moment §11.3).
    hatch_justification text,
    has_calibration_note boolean NOT NULL,
    -- Whether it was nearly a question that had been refused.
    near_duplicate     boolean NOT NULL,
    -- What was remarked at its emission, JSON.
    lints              text NOT NULL,
    job_id             uuid,
    intent_id          uuid,
    -- The thread that it belongs to, in the agent's words.
    corr               text,
    -- In which state of the job or the intent an answer counts, JSON.
    valid_while        text,
    -- The refused question whose place this one took, and the one that took this one's; what it says to the objection.
    supersedes         uuid,
    superseded_by      uuid,
    objection_response text,
    state              text NOT NULL CHECK (state IN
        ('open', 'deliberating', 'resolved', 'withdrawn', 'expired', 'superseded', 'closed')),
    created_at         timestamptz NOT NULL,
    -- Null for a deliberation without a question.
    expires_at         timestamptz,
    first_viewed_at    timestamptz,
    detail_asked_at    timestamptz,
    -- When the agent first spoke after the objection.
    deliberated_at     timestamptz,
    -- While it is deliberated: since when nobody has said anything.
    quiet_since        timestamptz,
    -- The one answer: exactly one of three (binding moment §6.3).
    resolution_kind    text CHECK (resolution_kind IN ('option', 'free_text', 'dialogue')),
    option_idx         integer,
    -- Null once scrubbed. Nowhere else, and no hash of it: a short answer can be guessed.
    answer_text        text,
    objection_text     text,
    resolved_at        timestamptz,
    resolved_by        text,
    -- With which key, and through what: web, cli or api.
    resolver_key_id    uuid,
    resolved_via       text CHECK (resolved_via IN ('web', 'cli', 'api')),
    -- Why it was withdrawn or closed, in somebody's words.
    end_reason         text,
    -- When the objection to a refused question was settled: its deliberation was closed, or what took its place answered.
    veto_settled_at    timestamptz,
    -- When it came to an end: resolved, withdrawn, expired, superseded or closed.
    ended_at           timestamptz,
    -- When the agent said that it has the answer.
    acked_at           timestamptz,
    scrubbed_at        timestamptz,
    -- Grows with every change.
    version            bigint NOT NULL,
    -- Its place among all changes of moments: what followers go on from.
    changed_seq        bigint NOT NULL,
    -- When time does something to it next: escalates, expires or scrubs it.
    due_at             timestamptz,
    CHECK ((resolution_kind IS NULL) = (resolved_at IS NULL)),
    CHECK ((option_idx IS NOT NULL) = (resolution_kind IS NOT DISTINCT FROM 'option')),
    CHECK (answer_text IS NULL OR resolution_kind = 'free_text'),
    CHECK (objection_text IS NULL OR resolution_kind = 'dialogue')
);
-- Lists and rates are by age, which is the id's: an admin's by the key, everybody else's by these three, merged. Nobody is two of
-- the three on one row.
CREATE INDEX moments_by_agent ON moments (agent_id, id);
CREATE INDEX moments_by_principal ON moments (principal_id, id);
CREATE INDEX moments_by_escalation ON moments (escalate_to, id) WHERE escalate_to IS NOT NULL;
-- What of somebody's has changed: merged likewise.
CREATE INDEX moments_changed_of_agent ON moments (agent_id, changed_seq);
CREATE INDEX moments_changed_of_principal ON moments (principal_id, changed_seq);
CREATE INDEX moments_changed_of_escalation ON moments (escalate_to, changed_seq) WHERE escalate_to IS NOT NULL;
-- The refused questions that are not settled.
CREATE INDEX moments_unsettled ON moments (agent_id) WHERE resolution_kind = 'dialogue' AND veto_settled_at IS NULL;
-- What waits for somebody, or does again when what took the place of a refused question has ended; the earliest deadline
-- first: the inbox, and how many there are.
CREATE INDEX moments_waiting ON moments (principal_id, expires_at, id)
    WHERE state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL;
CREATE INDEX moments_waiting_escalated ON moments (escalate_to, expires_at, id)
    WHERE escalate_to IS NOT NULL
        AND (state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL);
-- What of an agent's waits: it may have so many with one person.
CREATE INDEX moments_waiting_of_agent ON moments (agent_id) WHERE state IN ('open', 'deliberating');
CREATE INDEX moments_of_jobs ON moments (job_id) WHERE job_id IS NOT NULL AND state IN ('open', 'deliberating');
CREATE INDEX moments_of_intents ON moments (intent_id) WHERE intent_id IS NOT NULL AND state IN ('open', 'deliberating');
CREATE INDEX moments_due ON moments (due_at) WHERE due_at IS NOT NULL;

-- The last change of all: its row's lock makes the order of changes the order in which they become visible.
CREATE TABLE moment_clock (
    id       boolean PRIMARY KEY DEFAULT true CHECK (id),
    last_seq bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO moment_clock (last_seq) VALUES (0);

-- What is said about a moment: requests for detail, answers to them, deliberations, replies.
CREATE TABLE moment_words (
    moment_id uuid NOT NULL,
    -- Its place in the thread, from 1.
    n         integer NOT NULL,
    author    text NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('detail_asked', 'detail', 'deliberation', 'reply')),
    -- Null once scrubbed.
    text      text,
    said_at   timestamptz NOT NULL,
    PRIMARY KEY (moment_id, n)
);
