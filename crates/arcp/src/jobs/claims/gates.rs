//! Gates, by which running jobs are counted where a limit is set (`limits.rs`) or a job has a concurrency key. Table
//! `job_slots`.
//!
//! A claim of such jobs takes the lock of each gate, counts under it, and writes a slot for each job that it starts. A job runs
//! at a gate if it has a slot there and its state says that it runs: ends, requeues and deletions need not know of
//! gates, and a crash leaves nothing that is counted wrongly. Jobs whose key is full are parked, so that claims do not
//! meet them again; [`let_in`] lets them back when one ends, and the sweep if that was missed.

use std::collections::{BTreeMap, BTreeSet};

use entente_domain::arcp::jobs::limits::{Concurrency, Count, Counts, Gate, Limits, Passage};
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::canonical::sha256;
use entente_domain::clock::{Timestamp, plus_seconds};
use entente_kernel::Outcome;
use entente_kernel::wakeups::WakeKey;
use entente_runtime::fences;
use entente_store::limits::AT_ONCE;
use sqlx::PgConnection;
use uuid::Uuid;

use super::queue::{Chosen, Taken};
use crate::Ctx;
use crate::jobs::writes;
use crate::limits;

/// Maximum number of jobs that one look at a key lets in.
const LET_IN: i64 = 64;

/// Lock of a gate: the first bytes of a digest, beside the locks of intents, which are random too.
pub(in crate::jobs) fn lock_of(gate: &Gate) -> i64 {
    let digest = sha256(gate.to_string());
    digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Gates at which a job is judged, as far as the queue knows: an agent or a principal without a limit has an open gate.
pub(in crate::jobs) fn gates_of(chosen: &Chosen) -> Vec<Gate> {
    let mut gates = Vec::new();
    if chosen.limited {
        gates.push(Gate::Agent(name_of(&chosen.agent).to_owned()));
        gates.push(Gate::Principal(chosen.principal.clone()));
    }
    gates.extend(chosen.concurrency.as_ref().map(|one| Gate::Key(chosen.principal.clone(), one.key.clone())));
    gates
}

/// Name of an agent without its version.
pub(in crate::jobs) fn name_of(agent: &str) -> &str {
    agent.split('@').next().unwrap_or_default()
}

/// Judgement of jobs at their gates, under the gates' locks.
pub(in crate::jobs) struct Judged {
    /// Jobs that may start, in their order.
    pub admitted: Vec<Uuid>,
    /// Gates that let some job wait.
    pub closed: BTreeSet<Gate>,
    passages: BTreeMap<Uuid, Vec<Passage>>,
}

impl Judged {
    /// Jobs that are counted at a gate if they start.
    pub fn counted(&self) -> Vec<Uuid> {
        self.passages.iter().filter(|(_, passages)| !passages.is_empty()).map(|(id, _)| *id).collect()
    }
}

/// Judges which of these jobs may start.
pub(in crate::jobs) async fn judge(
    conn: &mut PgConnection,
    chosen: &[Chosen],
    now: Timestamp,
) -> Outcome<Judged> {
    let all: BTreeSet<Gate> = chosen.iter().flat_map(gates_of).collect();
    let set = limits::of_gates(conn, &all, now).await?;
    for gate in &set.uncounted {
        count_running(conn, gate, now).await?;
    }
    limits::counted(conn, &set.uncounted, now).await?;
    let mut judged = Judged { admitted: Vec::new(), closed: BTreeSet::new(), passages: BTreeMap::new() };
    for one in chosen {
        let passages = gates_of(one).into_iter().filter_map(|gate| {
            let limits = match &gate {
                Gate::Key(..) => one.concurrency.as_ref().map(Concurrency::limits),
                Gate::Agent(_) | Gate::Principal(_) => set.limits.get(&gate).copied(),
            };
            Some((gate, limits?))
        });
        judged.passages.insert(one.job_id.uuid(), passages.collect());
    }
    let mut counts = count(conn, judged.passages.values().flatten(), now).await?;
    let early = overtaking(conn, chosen).await?;
    for one in chosen {
        let id = one.job_id.uuid();
        let passages = judged.passages.get(&id).map(Vec::as_slice).unwrap_or_default();
        if let Some(gate) = counts.closed(passages) {
            judged.closed.insert(gate.clone());
        } else if early.contains(&id) {
            let keys = passages.iter().map(|(gate, _)| gate).filter(|gate| matches!(gate, Gate::Key(..)));
            judged.closed.extend(keys.cloned());
        } else {
            counts.pass(passages);
            judged.admitted.push(id);
        }
    }
    Ok(judged)
}

/// Returns those of these jobs that would overtake one of their key and agent: it has waited for longer, or is more urgent, and is
/// let in as soon as there is room. A delegated job overtakes: the one that waits for it may have the room.
async fn overtaking(conn: &mut PgConnection, chosen: &[Chosen]) -> Outcome<BTreeSet<Uuid>> {
    let keyed: Vec<Uuid> =
        chosen.iter().filter(|one| one.concurrency.is_some()).map(|one| one.job_id.uuid()).collect();
    if keyed.is_empty() {
        return Ok(BTreeSet::new());
    }
    let early = sqlx::query_scalar!(
        "-- job_clock::overtaking
         SELECT c.job_id FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.job_id = ANY($1) AND j.parent_id IS NULL AND EXISTS (
             SELECT 1 FROM job_clock p
             WHERE p.gate = c.gate AND p.gate IS NOT NULL AND p.agent = c.agent AND p.status = 'pending' AND p.parked
               AND p.not_before IS NULL
               AND (p.precedence, p.job_id) < (c.precedence, c.job_id)
               AND NOT EXISTS (SELECT 1 FROM stopped_jobs h WHERE h.job_id = p.job_id))",
        &keyed
    )
    .fetch_all(conn)
    .await?;
    Ok(early.into_iter().collect())
}

/// Counts the jobs at gates, and deletes slots that nothing counts any more.
async fn count(
    conn: &mut PgConnection,
    passages: impl Iterator<Item = &Passage>,
    now: Timestamp,
) -> Outcome<Counts> {
    let mut counts = Counts::default();
    let mut asked: Vec<(Gate, Option<i64>)> =
        passages.map(|(gate, limits)| (gate.clone(), limits.per_sec)).collect();
    asked.sort_unstable();
    asked.dedup();
    if asked.is_empty() {
        return Ok(counts);
    }
    let rows = sqlx::query!(
        r#"-- job_slots::count
         WITH asked AS (SELECT * FROM UNNEST($1::text[], $2::bigint[]) WITH ORDINALITY AS a (gate, per_sec, place)),
         gone AS (
             DELETE FROM job_slots s USING (SELECT DISTINCT gate FROM asked) a
             WHERE s.gate = a.gate AND s.kept_until <= $3
               AND NOT EXISTS (SELECT 1 FROM job_clock c WHERE c.job_id = s.job_id AND c.status = 'running'))
         SELECT a.place AS "place!",
             (SELECT count(DISTINCT s.job_id) FROM job_slots s JOIN job_clock c ON c.job_id = s.job_id
              WHERE s.gate = a.gate AND c.status = 'running') AS "running!",
             (SELECT count(*) FROM job_slots s
              WHERE s.gate = a.gate AND s.started_at > $3 - make_interval(secs => a.per_sec::double precision)) AS "started!"
         FROM asked a ORDER BY a.place"#,
        &asked.iter().map(|(gate, _)| gate.to_string()).collect::<Vec<_>>(),
        &asked.iter().map(|(_, per_sec)| per_sec.unwrap_or_default()).collect::<Vec<_>>(),
        now
    )
    .fetch_all(conn)
    .await?;
    for (row, (gate, per_sec)) in rows.into_iter().zip(asked) {
        counts.add(gate, per_sec, Count { running: row.running, started: row.started });
    }
    Ok(counts)
}

/// Writes the slots of jobs that started.
pub(in crate::jobs) async fn fill(
    conn: &mut PgConnection,
    judged: &Judged,
    taken: &[Taken],
    now: Timestamp,
) -> Outcome<()> {
    let (mut gates, mut jobs, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for id in taken.iter().map(|one| one.job_id.uuid()) {
        for (gate, limits) in judged.passages.get(&id).into_iter().flatten() {
            let seconds = limits.per_sec.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or_default();
            gates.push(gate.to_string());
            jobs.push(id);
            kept.push(plus_seconds(now, seconds));
        }
    }
    if gates.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_slots::fill
         INSERT INTO job_slots (gate, job_id, started_at, kept_until)
         SELECT gate, job_id, $4, kept_until FROM UNNEST($1::text[], $2::uuid[], $3::timestamptz[])
         AS s (gate, job_id, kept_until) ON CONFLICT DO NOTHING",
        &gates,
        &jobs,
        &kept,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Gives slots to the jobs that run already at a gate with a new limit.
async fn count_running(conn: &mut PgConnection, gate: &Gate, now: Timestamp) -> Outcome<()> {
    let (agent, principal) = match gate {
        Gate::Agent(name) => (Some(name), None),
        Gate::Principal(name) => (None, Some(name)),
        Gate::Key(..) => return Ok(()),
    };
    sqlx::query!(
        "-- job_slots::count_running
         INSERT INTO job_slots (gate, job_id, started_at, kept_until)
         SELECT $1, c.job_id, coalesce(c.claimed_at, $4), $4 FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.due_at IS NOT NULL AND c.status = 'running'
           AND (split_part(c.agent, '@', 1) = $2 OR j.principal = $3)
         ON CONFLICT DO NOTHING",
        gate.to_string(),
        agent,
        principal,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Lets jobs of keys back into the queue, after jobs with slots have ended or were given back.
///
/// It runs after their commit. If a gate is held by another, or the database fails, the sweep does it.
pub(in crate::jobs) async fn after(ctx: &Ctx, jobs: impl Iterator<Item = &Job>) {
    let left = jobs.filter(|job| job.slotted && job.status != JobStatus::Running);
    let gates: BTreeSet<Gate> = left
        .filter_map(|job| Some(Gate::Key(job.principal.clone(), job.concurrency.as_ref()?.key.clone())))
        .collect();
    for gate in gates {
        // The request's fences held for its own transaction, and may have ended with it.
        let gate_name = gate.to_string();
        let next = fences::within(Vec::new(), let_in(ctx, &gate_name, lock_of(&gate)));
        if let Err(failure) = next.await {
            tracing::debug!(error = %failure, "jobs of a concurrency key wait for the sweep");
        }
    }
}

/// Lets as many jobs of a key into the queue as may start; returns their number. Jobs that a stop holds back, or that wait
/// for their time, stay out.
async fn let_in(ctx: &Ctx, gate: &str, lock: i64) -> Outcome<u64> {
    let mut tx = ctx.begin_waiting(vec![lock], Some(AT_ONCE)).await?;
    let now = ctx.now();
    let rows = sqlx::query!(
        r#"-- job_clock::waiting_at_gate
         SELECT c.job_id, c.parked, j.agent, j.principal, j.concurrency AS "concurrency!"
         FROM job_clock c JOIN jobs j ON j.id = c.job_id
         WHERE c.gate = $1 AND c.status = 'pending' AND c.gate IS NOT NULL AND j.concurrency IS NOT NULL
           AND c.not_before IS NULL AND NOT EXISTS (SELECT 1 FROM stopped_jobs h WHERE h.job_id = c.job_id)
           AND NOT EXISTS (
               SELECT 1 FROM stops s WHERE s.lifted_at IS NULL
                 AND stop_concerns(s.scope, s.subject, s.subject_id, j.owner, j.principal, j.agent, j.intent_id, j.key_id))
         ORDER BY c.precedence, c.job_id LIMIT $2"#,
        gate,
        LET_IN
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut waiting: Vec<(Uuid, bool, String, Vec<Passage>)> = Vec::new();
    for row in rows {
        let concurrency: Concurrency = serde_json::from_str(&row.concurrency)?;
        let limits: Limits = concurrency.limits();
        let passages = vec![(Gate::Key(row.principal, concurrency.key), limits)];
        waiting.push((row.job_id, row.parked, row.agent, passages));
    }
    let passages = waiting.iter().flat_map(|(.., passages)| passages);
    let mut counts = count(&mut tx, passages, now).await?;
    let (mut ids, mut agents) = (Vec::new(), BTreeSet::new());
    for (id, parked, agent, passages) in waiting {
        if counts.closed(&passages).is_some() {
            break;
        }
        counts.pass(&passages);
        if parked {
            ids.push(id);
            agents.insert(agent);
        }
    }
    let done = if ids.is_empty() { 0 } else { writes::unpark(&mut tx, &ids).await? };
    tx.commit().await?;
    agents.into_iter().for_each(|agent| ctx.feed.wake(WakeKey::Work(agent)));
    Ok(done)
}

/// Lets jobs of keys into the queue that nobody else let in; returns their number. Each run goes on behind the keys of the one
/// before: keys whose jobs wait for something else, such as the end of a stop, keep nobody back.
///
/// # Errors
/// The database query fails.
pub async fn let_in_all(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let after = ctx.state.turns.last_gate();
    let gates = sqlx::query_scalar!(
        r#"-- job_clock::parked_gates
         WITH RECURSIVE gates (gate, number) AS (
             (SELECT c.gate, 1::bigint FROM job_clock c
              WHERE c.status = 'pending' AND c.parked AND c.gate > $2 AND c.not_before IS NULL ORDER BY c.gate LIMIT 1)
             UNION ALL
             SELECT n.gate, g.number + 1 FROM gates g CROSS JOIN LATERAL (
                 SELECT c.gate FROM job_clock c
                 WHERE c.status = 'pending' AND c.parked AND c.gate > g.gate AND c.not_before IS NULL
                 ORDER BY c.gate LIMIT 1) n
             WHERE g.number < $1)
         SELECT gate AS "gate!" FROM gates"#,
        limit,
        after
    )
    .fetch_all(&ctx.pool)
    .await?;
    let is_end = i64::try_from(gates.len()).unwrap_or(limit) < limit;
    ctx.state.turns.note_gate(gates.last().filter(|_| !is_end).cloned().unwrap_or_default());
    let mut done = 0;
    for text in gates {
        let digest = sha256(&text);
        let lock = digest.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        match let_in(ctx, &text, lock).await {
            Ok(count) => done += count,
            // A claim holds the gate: the next run looks again.
            Err(failure) if failure.is_passing() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(done)
}

/// Deletes up to `limit` slots that nothing counts any more.
///
/// # Errors
/// The database query fails.
pub async fn tidy_slots(ctx: &Ctx, limit: i64) -> Outcome<u64> {
    let done = sqlx::query!(
        "-- job_slots::tidy
         DELETE FROM job_slots WHERE (gate, job_id, started_at) IN (
             SELECT s.gate, s.job_id, s.started_at FROM job_slots s
             WHERE s.kept_until <= $1
               AND NOT EXISTS (SELECT 1 FROM job_clock c WHERE c.job_id = s.job_id AND c.status = 'running')
             ORDER BY s.kept_until LIMIT $2 FOR UPDATE SKIP LOCKED)",
        ctx.now(),
        limit
    )
    .execute(&ctx.pool)
    .await?;
    Ok(done.rows_affected())
}
