//! The queue of waiting jobs: which ones a claim takes, and in which order. Higher priorities go first; within one, the
//! principals take turns; of one principal the oldest job goes first. The index `job_clock_queue` has this order.
//!
//! Most queues have jobs of one priority and one principal. [`take`] claims these with two probes of the index more than a
//! scan; [`take_in_turns`] claims from all others. Both compare the pair of priority and principal as a range: with an equality,
//! the order is that of the ids alone, and PostgreSQL may walk over the primary key of all jobs, if most of them waited when it
//! counted the table.
//!
//! Whose turn it is each server remembers for itself (`turns.rs`): the turns of each are fair, and so is their sum.

use entente_domain::arcp::jobs::limits::Concurrency;
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, WorkerId};
use entente_kernel::Outcome;
use entente_kernel::log::writer::digest;
use sqlx::PgConnection;
use uuid::Uuid;

use super::tokens::Tokens;
use super::turns::QueueTurn;
use crate::Ctx;
use crate::columns::number;
use crate::jobs::writes::claim;

/// Terms of a claim.
pub(in crate::jobs) struct With<'a> {
    /// Worker that claims.
    pub worker: WorkerId,
    /// One token for each job.
    pub tokens: &'a Tokens,
    /// Time of the claim.
    pub from: Timestamp,
    /// Expiry of the claim.
    pub until: Timestamp,
}

/// A claimed job, as its worker needs it.
pub(in crate::jobs) struct Taken {
    pub job_id: JobId,
    pub agent: String,
    pub input: Option<String>,
    pub lease: String,
    pub expires_at: Option<Timestamp>,
    pub payers: Vec<Uuid>,
    pub trace_id: String,
    pub parent_id: Option<JobId>,
    pub delegate_id: Option<String>,
    pub intent_id: Option<IntentId>,
    pub principal: String,
    pub deadline: Option<Timestamp>,
    pub attempt: u32,
    /// Progress of an earlier attempt.
    pub checkpoint: Option<String>,
    pub token: String,
    /// Whether it has signals that no worker has acknowledged, and the number of the last acknowledged one.
    pub signals: bool,
    pub signals_acked: i64,
}

/// A job whose turn it is, and which is claimed under locks.
pub(in crate::jobs) struct Chosen {
    pub job_id: JobId,
    pub agent: String,
    pub principal: String,
    pub intent_id: Option<IntentId>,
    /// Whether its agent or its principal has limits.
    pub limited: bool,
    pub concurrency: Option<Concurrency>,
}

/// Jobs whose turn it is.
#[derive(Default)]
pub(in crate::jobs) struct Queued {
    /// Claimed jobs.
    pub taken: Vec<Taken>,
    /// Jobs to be claimed under locks.
    pub chosen: Vec<Chosen>,
}

impl Queued {
    /// Number of jobs.
    pub fn count(&self) -> usize {
        self.taken.len() + self.chosen.len()
    }
}

struct Row {
    job_id: Uuid,
    agent: String,
    input: Option<String>,
    lease: String,
    expires_at: Option<Timestamp>,
    payers: Vec<Uuid>,
    trace_id: String,
    parent_id: Option<Uuid>,
    delegate_id: Option<String>,
    intent_id: Option<Uuid>,
    principal: String,
    deadline: Option<Timestamp>,
    /// Absent if the job was not claimed.
    attempt: Option<i32>,
    checkpoint: Option<String>,
    place: i64,
    several: bool,
    signals: bool,
    signals_acked: i64,
    limited: bool,
    concurrency: Option<String>,
}

/// Sorts rows into claimed jobs and those to be claimed under locks.
fn sort(rows: Vec<Row>, tokens: &Tokens) -> Outcome<Queued> {
    let mut queued = Queued::default();
    for row in rows {
        let (job_id, intent_id) = (JobId::from(row.job_id), row.intent_id.map(IntentId::from));
        let Some(attempt) = row.attempt else {
            let concurrency = row.concurrency.as_deref().map(serde_json::from_str).transpose()?;
            let (agent, principal, limited) = (row.agent, row.principal, row.limited);
            queued.chosen.push(Chosen { job_id, agent, principal, intent_id, limited, concurrency });
            continue;
        };
        queued.taken.push(Taken {
            job_id,
            agent: row.agent,
            input: row.input,
            lease: row.lease,
            expires_at: row.expires_at,
            payers: row.payers,
            trace_id: row.trace_id,
            parent_id: row.parent_id.map(JobId::from),
            delegate_id: row.delegate_id,
            intent_id,
            principal: row.principal,
            deadline: row.deadline,
            attempt: number(attempt)?,
            checkpoint: row.checkpoint,
            token: tokens.at(row.place).unwrap_or_default(),
            signals: row.signals,
            signals_acked: row.signals_acked,
        });
    }
    Ok(queued)
}

/// Takes the jobs of these agents whose turn it is, without those of some principals: at most one per token.
pub(in crate::jobs) async fn take(
    ctx: &Ctx,
    conn: &mut PgConnection,
    agents: &[String],
    without: &[String],
    with: &With<'_>,
) -> Outcome<Queued> {
    let turns = &ctx.state.turns;
    let turn = turns.of(agents);
    if !turn.several {
        let rows = take_of_one(conn, agents, without, with).await?;
        if !rows.is_empty() {
            return sort(rows, with.tokens);
        }
    }
    let rows = take_in_turns(conn, agents, without, with, &turn.after).await?;
    if let Some(first) = rows.first() {
        turns.note(agents, QueueTurn { after: last_served(&rows).to_owned(), several: first.several });
    }
    sort(rows, with.tokens)
}

/// Returns the principal after which the next claim begins. If each principal got one job, more may wait than a claim has
/// places, and the next claim goes on behind the last one; else all had their share, and another one begins.
fn last_served(rows: &[Row]) -> &str {
    let mut served: Vec<&str> = rows.iter().map(|row| row.principal.as_str()).collect();
    let last = served.last().copied().unwrap_or_default();
    let first = served.first().copied().unwrap_or_default();
    let count = served.len();
    served.sort_unstable();
    served.dedup();
    if served.len() == count { last } else { first }
}

/// Claims from a queue with jobs of one priority and one principal; from any other, or an empty one, nothing.
async fn take_of_one(
    conn: &mut PgConnection,
    agents: &[String],
    without: &[String],
    with: &With<'_>,
) -> Outcome<Vec<Row>> {
    Ok(claim!(
        conn,
        "job_clock::take",
        "WITH ends AS MATERIALIZED (
             SELECT a.agent, f.precedence, f.principal, (f.precedence, f.principal) <> (l.precedence, l.principal) AS several,
                 EXISTS (SELECT 1 FROM job_limits i WHERE i.scope = 'agent' AND i.name = split_part(a.agent, '@', 1))
                     OR EXISTS (SELECT 1 FROM job_limits i WHERE i.scope = 'principal' AND i.name = f.principal
                                AND coalesce(i.max_running, i.max_starts) IS NOT NULL) AS limited
             FROM UNNEST($1::text[]) AS a (agent)
             CROSS JOIN LATERAL (
                 SELECT c.precedence, c.principal FROM job_clock c
                 WHERE c.status = 'pending' AND NOT c.parked AND c.agent = a.agent
                 ORDER BY c.precedence, c.principal, c.job_id LIMIT 1) f
             CROSS JOIN LATERAL (
                 SELECT c.precedence, c.principal FROM job_clock c
                 WHERE c.status = 'pending' AND NOT c.parked AND c.agent = a.agent
                 ORDER BY c.precedence DESC, c.principal DESC, c.job_id DESC LIMIT 1) l
             WHERE f.principal <> ALL($7::text[]) AND EXISTS (SELECT 1 FROM workers w WHERE w.id = $3 AND w.directive = 'run')
               AND NOT EXISTS (SELECT 1 FROM job_queues q
                 WHERE q.agent IN (a.agent, split_part(a.agent, '@', 1)) AND NOT q.gives)),
         waiting AS (
             SELECT p.job_id, p.intent_id IS NULL AND p.gate IS NULL AND NOT e.limited AS plain, e.limited
             FROM ends e CROSS JOIN LATERAL (
                 SELECT c.job_id, c.intent_id, c.gate FROM job_clock c
                 WHERE c.status = 'pending' AND NOT c.parked AND c.agent = e.agent
                   AND (c.precedence, c.principal) >= (e.precedence, e.principal)
                   AND (c.precedence, c.principal) <= (e.precedence, e.principal)
                 ORDER BY c.precedence, c.principal, c.job_id LIMIT $2 FOR UPDATE SKIP LOCKED) p
             WHERE NOT EXISTS (
                 SELECT 1 FROM ends o WHERE o.several OR (o.precedence, o.principal) <> (e.precedence, e.principal)))
         SELECT job_id, row_number() OVER (ORDER BY job_id) AS place, plain, limited, false AS slotted, false AS several
         FROM waiting ORDER BY job_id LIMIT $2",
        agents,
        with,
        without
    ))
}

/// Claims from a queue with jobs of several priorities or principals, beginning with the principal after `after`.
///
/// `groups` walks over the priorities and principals with waiting jobs of each agent, in the order of turns: one more probe of
/// the index for each, and no more than there are jobs to take, with a few more, because another claim may hold all
/// jobs of one. Those of the principals that are left out do not count: they could keep all others out of sight. `shares`
/// divides the claim evenly among the principals of a priority, and the rest in a second pass.
async fn take_in_turns(
    conn: &mut PgConnection,
    agents: &[String],
    without: &[String],
    with: &With<'_>,
    after: &str,
) -> Outcome<Vec<Row>> {
    Ok(claim!(
        conn,
        "job_clock::take_in_turns",
        "WITH RECURSIVE groups (agent, precedence, principal, oldest, wrapped, number, walked) AS (
             SELECT a.agent, (-32768)::smallint, ''::text, NULL::uuid, true, 0::bigint, 0
             FROM UNNEST($1::text[]) AS a (agent)
             WHERE EXISTS (SELECT 1 FROM workers w WHERE w.id = $3 AND w.directive = 'run') AND NOT EXISTS (
                 SELECT 1 FROM job_queues q WHERE q.agent IN (a.agent, split_part(a.agent, '@', 1)) AND NOT q.gives)
             UNION ALL SELECT g.agent, n.precedence, n.principal, n.job_id, n.wrapped, g.number + (n.principal <> ALL($8))::int, g.walked + 1
             FROM groups g CROSS JOIN LATERAL (
                 (SELECT c.precedence, c.principal, c.job_id, g.wrapped FROM job_clock c
                  WHERE c.status = 'pending' AND NOT c.parked AND c.agent = g.agent AND c.precedence = g.precedence
                    AND c.principal > g.principal AND (NOT g.wrapped OR c.principal <= $7) ORDER BY c.principal, c.job_id LIMIT 1)
                 UNION ALL
                 (SELECT c.precedence, c.principal, c.job_id, true FROM job_clock c
                  WHERE c.status = 'pending' AND NOT c.parked AND c.agent = g.agent AND c.precedence = g.precedence
                    AND c.principal <= $7 AND NOT g.wrapped ORDER BY c.principal, c.job_id LIMIT 1)
                 UNION ALL
                 (SELECT f.* FROM (
                      SELECT c.precedence FROM job_clock c WHERE c.status = 'pending' AND NOT c.parked AND c.agent = g.agent
                        AND c.precedence > g.precedence ORDER BY c.precedence LIMIT 1) l
                  CROSS JOIN LATERAL (
                      (SELECT c.precedence, c.principal, c.job_id, false FROM job_clock c
                       WHERE c.status = 'pending' AND NOT c.parked AND c.agent = g.agent AND c.precedence = l.precedence
                         AND c.principal > $7 ORDER BY c.principal, c.job_id LIMIT 1)
                      UNION ALL
                      (SELECT c.precedence, c.principal, c.job_id, true FROM job_clock c
                       WHERE c.status = 'pending' AND NOT c.parked AND c.agent = g.agent AND c.precedence = l.precedence
                         AND c.principal <= $7 ORDER BY c.principal, c.job_id LIMIT 1)
                      LIMIT 1) f)
                 LIMIT 1) n (precedence, principal, job_id, wrapped)
             WHERE g.number < $2::bigint + 4 AND g.walked < 2000),
         turns AS (
             SELECT g.*, row_number() OVER (PARTITION BY g.precedence, g.principal ORDER BY g.oldest) AS turn
             FROM groups g WHERE g.oldest IS NOT NULL AND g.principal <> ALL($8::text[])),
         shares AS (
             SELECT t.*, EXISTS (SELECT 1 FROM job_limits i WHERE i.scope = 'agent' AND i.name = split_part(t.agent, '@', 1))
                        OR EXISTS (SELECT 1 FROM job_limits i WHERE i.scope = 'principal' AND i.name = t.principal
                                   AND coalesce(i.max_running, i.max_starts) IS NOT NULL) AS limited,
                    count(*) FILTER (WHERE t.turn = 1) OVER () > 1 AS several,
                    count(*) FILTER (WHERE t.turn = 1) OVER (PARTITION BY t.precedence) > 1 AS divided,
                    greatest(1, $2 / count(*) FILTER (WHERE t.turn = 1) OVER (PARTITION BY t.precedence)) AS share
             FROM turns t),
         waiting AS (
             SELECT p.job_id, p.intent_id IS NULL AND p.gate IS NULL AND NOT q.limited AS plain, q.limited, q.several
             FROM (SELECT s.*, pass FROM shares s CROSS JOIN generate_series(1, 2) AS pass WHERE pass = 1 OR s.divided
                   ORDER BY s.precedence, pass, s.turn, s.principal <= $7, s.principal) q
             CROSS JOIN LATERAL (
                 SELECT c.job_id, c.intent_id, c.gate FROM job_clock c
                 WHERE c.status = 'pending' AND NOT c.parked AND c.agent = q.agent
                   AND (c.precedence, c.principal) >= (q.precedence, q.principal)
                   AND (c.precedence, c.principal) <= (q.precedence, q.principal)
                 ORDER BY c.precedence, c.principal, c.job_id LIMIT CASE WHEN q.divided AND q.pass = 1 THEN q.share ELSE $2 END
                 OFFSET CASE q.pass WHEN 1 THEN 0 ELSE q.share END
                 FOR UPDATE SKIP LOCKED) p
             LIMIT $2), placed AS (SELECT *, row_number() OVER () AS place FROM waiting)
         SELECT DISTINCT ON (job_id) job_id, place, plain, limited, false AS slotted, several FROM placed ORDER BY job_id, place",
        agents,
        with,
        after,
        without
    ))
}

/// Claims those of these jobs that are still pending, if the worker may still claim; `counted` are those that a limit counts.
pub(in crate::jobs) async fn take_these(
    conn: &mut PgConnection,
    ids: &[Uuid],
    counted: &[Uuid],
    with: &With<'_>,
) -> Outcome<Vec<Taken>> {
    let rows = claim!(
        conn,
        "job_clock::take_these",
        "WITH waiting AS (
             SELECT c.job_id FROM job_clock c WHERE c.job_id = ANY($1) AND c.status = 'pending' AND NOT c.parked AND c.not_before IS NULL
               AND EXISTS (SELECT 1 FROM workers w WHERE w.id = $3 AND w.directive = 'run')
               AND NOT EXISTS (SELECT 1 FROM job_queues q
                 WHERE q.agent IN (c.agent, split_part(c.agent, '@', 1)) AND NOT q.gives)
             ORDER BY c.job_id FOR UPDATE SKIP LOCKED)
         SELECT job_id, row_number() OVER (ORDER BY array_position($1, job_id)) AS place, true AS plain, false AS limited,
             job_id = ANY($7::uuid[]) AS slotted, false AS several
         FROM waiting LIMIT $2",
        ids,
        with,
        counted
    );
    Ok(sort(rows, with.tokens)?.taken)
}

/// Returns those of these jobs that the worker holds, each with the digest of its token in place of the token.
pub(in crate::jobs) async fn held(
    conn: &mut PgConnection,
    worker: WorkerId,
    ids: &[Uuid],
    now: Timestamp,
) -> Outcome<Vec<(Taken, Digest)>> {
    let rows = sqlx::query!(
        r#"-- job_clock::held
         SELECT j.id, j.agent, j.input, j.lease, j.expires_at, j.payers, j.trace_id, j.parent_id, j.delegate_id, j.intent_id,
                j.principal, j.deadline, c.attempt, c.claim_token AS "claim_token!",
                c.signals_sent > c.signals_acked AS "signals!", c.signals_acked,
                (SELECT k.body FROM job_checkpoints k WHERE k.job_id = j.id) AS checkpoint
         FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.job_id = ANY($1) AND c.status = 'running' AND c.worker_id = $2 AND c.claim_expires_at > $3
         ORDER BY c.job_id"#,
        ids,
        worker.uuid(),
        now
    )
    .fetch_all(conn)
    .await?;
    let held = rows.into_iter().map(|row| {
        let taken = Taken {
            job_id: row.id.into(),
            agent: row.agent,
            input: row.input,
            lease: row.lease,
            expires_at: row.expires_at,
            payers: row.payers,
            trace_id: row.trace_id,
            parent_id: row.parent_id.map(JobId::from),
            delegate_id: row.delegate_id,
            intent_id: row.intent_id.map(IntentId::from),
            principal: row.principal,
            deadline: row.deadline,
            attempt: number(row.attempt)?,
            checkpoint: row.checkpoint,
            token: String::new(),
            signals: row.signals,
            signals_acked: row.signals_acked,
        };
        Ok((taken, digest(row.claim_token)?))
    });
    held.collect()
}
