//! Work that waits for other work: tasks for those that they depend on, jobs for those that they delegated.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId, TaskId};
use entente_domain::openintent::waits::{Wait, WaitKind};
use entente_kernel::Outcome;
use sqlx::PgConnection;

use super::Edge;

/// Time that a delegated job may take to find a worker before its parent waits for one.
const CLAIMED_WITHIN: TimeDelta = TimeDelta::milliseconds(300);

/// Time after which a worker that was not heard of runs no jobs: longer than a claim can wait.
const SILENT_AFTER: TimeDelta = TimeDelta::seconds(180);

/// Maximum number of steps from an awaited agent to those that it waits for.
const STEPS: usize = 50;

/// Returns the waits of work: all, or those that the work of these agents leads to.
///
/// An agent with a task or a job to go on with is not blocked by its others.
pub(super) async fn works(
    conn: &mut PgConnection,
    now: Timestamp,
    agents: Option<BTreeSet<String>>,
    limit: i64,
) -> Outcome<Vec<Edge>> {
    let mut waits = jobs(conn, now, limit).await?;
    match agents {
        None => waits.extend(tasks(conn, None, limit).await?),
        Some(mut new) => {
            new.extend(waits.iter().filter_map(|wait| wait.to.clone()));
            let mut known = BTreeSet::new();
            for _ in 0..STEPS {
                new = new.difference(&known).cloned().collect();
                if new.is_empty() || i64::try_from(waits.len()).is_ok_and(|count| count >= limit) {
                    break;
                }
                let found = tasks(conn, Some(&new), limit).await?;
                known.append(&mut new);
                new.extend(found.iter().filter_map(|wait| wait.to.clone()));
                waits.extend(found);
            }
        }
    }
    let waiting: BTreeSet<&str> = waits.iter().map(|wait| wait.from.as_str()).collect();
    let busy = at_work(conn, now, &waiting).await?;
    for wait in &mut waits {
        wait.blocks &= !busy.contains(&wait.from);
    }
    Ok(waits.into_iter().map(|wait| Edge { wait, seen: true }).collect())
}

/// Returns the waits of these agents' tasks, or of all.
async fn tasks(conn: &mut PgConnection, agents: Option<&BTreeSet<String>>, limit: i64) -> Outcome<Vec<Wait>> {
    macro_rules! query {
        ($name:literal, $which:literal $(, $argument:expr)*) => {
            sqlx::query!(
                "-- " + $name + r#"
                 SELECT t.assigned_agent AS "from!", d.assigned_agent AS "to!", d.id AS "task!", t.intent_id, t.created_at AS "since!"
                 FROM tasks t JOIN tasks d ON d.id = ANY(t.depends_on)
                 WHERE t.status IN ('pending', 'blocked') AND t.depends_on <> '{}' AND t.assigned_agent IS NOT NULL
                   AND d.status IN ('pending', 'ready', 'claimed', 'running', 'blocked') AND d.assigned_agent IS NOT NULL
                   AND "# + $which + " ORDER BY t.id, d.id LIMIT $1",
                limit $(, $argument)*
            )
            .map(|row| Wait {
                from: row.from,
                to: Some(row.to),
                kind: WaitKind::Task,
                reference: TaskId::from(row.task).to_string(),
                intent_id: Some(row.intent_id.into()),
                since: row.since,
                blocks: true,
                public: true,
            })
            .fetch_all(conn)
            .await?
        };
    }
    Ok(match agents {
        None => query!("waits::tasks", "true"),
        Some(agents) => {
            let agents: Vec<String> = agents.iter().cloned().collect();
            query!("waits::tasks_of", "t.assigned_agent = ANY($2)", &agents)
        }
    })
}

/// Returns the waits of running jobs for those that they delegated.
///
/// Its worker's principal runs a job if that is an agent; of a service's worker, the job's agent does. A job without a worker
/// waits for the one that runs jobs of its agent; if several do, any of them may take it.
async fn jobs(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<Wait>> {
    let rows = sqlx::query!(
        r#"-- waits::jobs
         SELECT j.id, j.created_at, j.intent_id, split_part(j.agent, '@', 1) AS "agent!",
                CASE WHEN pk.kind = 'agent' THEN pw.principal ELSE split_part(p.agent, '@', 1) END AS "from!",
                CASE WHEN c.status <> 'running' THEN s.parties WHEN k.kind = 'agent' THEN ARRAY[w.principal]
                     ELSE ARRAY[split_part(j.agent, '@', 1)] END AS "to?"
         FROM job_clock c JOIN jobs j ON j.id = c.job_id
         JOIN jobs p ON p.id = j.parent_id JOIN job_clock pc ON pc.job_id = p.id
         LEFT JOIN workers pw ON pw.id = pc.worker_id LEFT JOIN principals pk ON pk.id = pw.principal
         LEFT JOIN workers w ON w.id = c.worker_id LEFT JOIN principals k ON k.id = w.principal
         LEFT JOIN LATERAL (
             SELECT array_agg(DISTINCT CASE WHEN sk.kind = 'agent' THEN sw.principal ELSE split_part(j.agent, '@', 1) END)
                        AS parties
             FROM workers sw JOIN principals sk ON sk.id = sw.principal
             WHERE c.status <> 'running' AND sw.last_seen_at > $2 AND j.agent = ANY(sw.agents)) s ON true
         WHERE c.ended_at IS NULL AND j.parent_id IS NOT NULL AND pc.status = 'running'
           AND (c.not_before IS NULL OR c.not_before <= $1) AND (c.status = 'running' OR j.created_at <= $3)
         ORDER BY j.id LIMIT $4"#,
        now,
        now - SILENT_AFTER,
        now - CLAIMED_WITHIN,
        limit
    )
    .fetch_all(conn)
    .await?;
    let waits = rows.into_iter().map(|row| {
        let one = row.to.filter(|parties| parties.len() == 1).and_then(|mut parties| parties.pop());
        Wait {
            from: row.from,
            blocks: one.is_some(),
            to: Some(one.unwrap_or(row.agent)),
            kind: WaitKind::Job,
            reference: JobId::from(row.id).to_string(),
            intent_id: row.intent_id.map(IntentId::from),
            since: row.created_at,
            public: true,
        }
    });
    Ok(waits.collect())
}

/// Returns those of these agents that have a task to do, or run a job that has delegated nothing that is open.
async fn at_work(
    conn: &mut PgConnection,
    now: Timestamp,
    agents: &BTreeSet<&str>,
) -> Outcome<BTreeSet<String>> {
    if agents.is_empty() {
        return Ok(BTreeSet::new());
    }
    let agents: Vec<String> = agents.iter().map(|agent| (*agent).to_owned()).collect();
    let found = sqlx::query_scalar!(
        r#"-- waits::at_work
         SELECT a.agent AS "agent!" FROM UNNEST($1::text[]) AS a (agent)
         WHERE EXISTS (
             SELECT 1 FROM tasks t
             WHERE t.assigned_agent = a.agent AND t.status IN ('pending', 'ready', 'claimed', 'running', 'blocked')
               AND CASE WHEN t.due_at <= $2 THEN t.due_status ELSE t.status END IN ('ready', 'claimed', 'running'))
         UNION
         SELECT CASE WHEN k.kind = 'agent' THEN w.principal ELSE split_part(c.agent, '@', 1) END
         FROM job_clock c JOIN workers w ON w.id = c.worker_id JOIN principals k ON k.id = w.principal
         WHERE c.ended_at IS NULL AND c.status = 'running'
           AND CASE WHEN k.kind = 'agent' THEN w.principal ELSE split_part(c.agent, '@', 1) END = ANY($1)
           AND NOT EXISTS (SELECT 1 FROM jobs j JOIN job_clock o ON o.job_id = j.id
                           WHERE j.parent_id = c.job_id AND o.ended_at IS NULL)"#,
        &agents,
        now
    )
    .fetch_all(conn)
    .await?;
    Ok(found.into_iter().collect())
}
