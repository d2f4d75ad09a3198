-- Binding moments, the number of their changes, and the conversations about them.

-- Moments: questions that an agent puts before a person, with their answers. A row moves through its states; the asking
-- agent and the asked person never change.
CREATE TABLE moments (
    id                    uuid PRIMARY KEY,
    -- The asking agent, and the one person who is asked.
    agent_id              text NOT NULL,
    principal_id          text NOT NULL,
    -- Second person, asked as well if nobody has answered by `escalate_at`; and when the escalation was recorded.
    escalate_to           text,
    escalate_at           timestamptz,
    escalated_at          timestamptz,
    -- Revision of the memo that defines the slots (BM-W-1.1).
    profile               text NOT NULL,
    -- The eight slots as canonical JSON. Null once the content is scrubbed, and for a deliberation without a question.
    brief                 text,
    -- SHA-256 of the slots: `sha256:` and hexadecimal digits. Kept when they are scrubbed.
    digest                text,
    -- Text for a surface that cannot show the slots.
    fallback_text         text,
    decision_class        text,
    -- Ways to answer otherwise, and the agent's reason for closing one (binding moment §11.3).
    hatch_free_text       boolean NOT NULL,
    hatch_dialogue        boolean NOT NULL,
    hatch_justification   text,
    has_calibration_note  boolean NOT NULL,
    -- Whether the question nearly repeated a refused one.
    near_duplicate        boolean NOT NULL,
    -- Warnings about the question, as JSON.
    lints                 text NOT NULL,
    -- Job that waits for the answer, intent that it concerns, and thread in the agent's words.
    job_id                uuid,
    intent_id             uuid,
    corr                  text,
    -- States of the job or the intent in which an answer counts, as JSON.
    valid_while           text,
    -- Refused question that this one replaced, the one that replaced this one, and the response to the objection.
    supersedes            uuid,
    superseded_by         uuid,
    objection_response    text,
    state                 text NOT NULL CHECK (state IN
        ('open', 'deliberating', 'resolved', 'withdrawn', 'expired', 'superseded', 'closed')),
    created_at            timestamptz NOT NULL,
    -- Null for a deliberation without a question.
    expires_at            timestamptz,
    first_viewed_at       timestamptz,
    detail_asked_at       timestamptz,
    -- The agent's first contribution after the objection.
    deliberated_at        timestamptz,
    -- While deliberating: time of the last contribution; the texts are scrubbed some time after it.
    quiet_since           timestamptz,
    -- The one answer, of exactly one of three kinds (binding moment §6.3).
    resolution_kind       text CHECK (resolution_kind IN ('option', 'free_text', 'dialogue')),
    option_idx            integer,
    -- Null once scrubbed. It is nowhere else, and neither is a hash of it: a short answer could be guessed.
    answer_text           text,
    objection_text        text,
    resolved_at           timestamptz,
    resolved_by           text,
    -- Key of the answer with its basis (`keys.basis`, `keys.let_in_by`), and the channel: web, cli or api.
    resolver_key_id       uuid,
    resolver_basis        text,
    resolver_let_in_by    text,
    resolved_via          text CHECK (resolved_via IN ('web', 'cli', 'api')),
    -- Reason for withdrawing or closing, as text.
    end_reason            text,
    -- When the objection to a refused question was settled: its deliberation was closed, or its replacement answered.
    veto_settled_at       timestamptz,
    -- When it was resolved, withdrawn, expired, superseded or closed.
    ended_at              timestamptz,
    -- When the agent acknowledged the answer.
    acked_at              timestamptz,
    scrubbed_at           timestamptz,
    -- Rises with each change.
    version               bigint NOT NULL,
    -- Number among the changes of all moments, after which followers continue.
    changed_seq           bigint NOT NULL,
    -- Next effect of time: escalation, expiry or scrubbing.
    due_at                timestamptz,
    CHECK ((resolution_kind IS NULL) = (resolved_at IS NULL)),
    CHECK ((option_idx IS NOT NULL) = (resolution_kind IS NOT DISTINCT FROM 'option')),
    CHECK (answer_text IS NULL OR resolution_kind = 'free_text'),
    CHECK (objection_text IS NULL OR resolution_kind = 'dialogue')
);

-- Lists and rates are by age, which is the order of ids: an admin's by the primary key, all others' by these three, merged.
-- Nobody is two of the three in one row.
CREATE INDEX moments_by_agent ON moments (agent_id, id);
CREATE INDEX moments_by_principal ON moments (principal_id, id);
CREATE INDEX moments_by_escalation ON moments (escalate_to, id) WHERE escalate_to IS NOT NULL;
-- Changes of a party's moments, merged in the same way.
CREATE INDEX moments_changed_of_agent ON moments (agent_id, changed_seq);
CREATE INDEX moments_changed_of_principal ON moments (principal_id, changed_seq);
CREATE INDEX moments_changed_of_escalation ON moments (escalate_to, changed_seq) WHERE escalate_to IS NOT NULL;
-- Refused questions whose objections are not settled.
CREATE INDEX moments_unsettled ON moments (agent_id) WHERE resolution_kind = 'dialogue' AND veto_settled_at IS NULL;
-- Inbox of a person, earliest deadline first, and its size: moments that wait, or wait again once the replacement of a
-- refused question has ended.
CREATE INDEX moments_waiting ON moments (principal_id, expires_at, id)
    WHERE state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL;
CREATE INDEX moments_waiting_escalated ON moments (escalate_to, expires_at, id)
    WHERE escalate_to IS NOT NULL
        AND (state IN ('open', 'deliberating') OR resolution_kind = 'dialogue' AND veto_settled_at IS NULL);
-- Waiting moments of an agent: their number with one person is limited.
CREATE INDEX moments_waiting_of_agent ON moments (agent_id) WHERE state IN ('open', 'deliberating');
-- Waiting moments of a job, and of an intent.
CREATE INDEX moments_of_jobs ON moments (job_id) WHERE job_id IS NOT NULL AND state IN ('open', 'deliberating');
CREATE INDEX moments_of_intents ON moments (intent_id) WHERE intent_id IS NOT NULL AND state IN ('open', 'deliberating');
-- Lists of all moments of a job, and of an intent.
CREATE INDEX moments_by_job ON moments (job_id, id) WHERE job_id IS NOT NULL;
CREATE INDEX moments_by_intent ON moments (intent_id, id) WHERE intent_id IS NOT NULL;
-- Sweep: due effects of time.
CREATE INDEX moments_due ON moments (due_at) WHERE due_at IS NOT NULL;

-- Number of the last change of all moments. The lock of this one row makes the order of numbers the order in which changes
-- become visible.
CREATE TABLE moment_clock (
    -- Allows one row only.
    id       boolean PRIMARY KEY DEFAULT true CHECK (id),
    last_seq bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO moment_clock (last_seq) VALUES (0);

-- Contributions to moments: requests for detail, the details, deliberations, and replies.
CREATE TABLE moment_words (
    moment_id uuid NOT NULL,
    -- Number in the conversation, from 1.
    n         integer NOT NULL,
    author    text NOT NULL,
    kind      text NOT NULL CHECK (kind IN ('detail_asked', 'detail', 'deliberation', 'reply')),
    -- Null once scrubbed.
    text      text,
    said_at   timestamptz NOT NULL,
    PRIMARY KEY (moment_id, n)
);
