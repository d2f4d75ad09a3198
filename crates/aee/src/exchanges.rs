//! Exchanges of a task and its expected respondent (AEE §4). Table `aee_pairs`.
//! `entente_domain::aee::envelopes::pairing` decides when an answer counts.

use std::collections::HashMap;

use entente_domain::aee::envelopes::approvals::Decided;
use entente_domain::aee::envelopes::pairing::{Pair, PairStatus};
use entente_domain::clock::Timestamp;
use entente_kernel::{AppError, Outcome};
use sqlx::PgConnection;

struct Row {
    task_id: String,
    respondent: String,
    asker: String,
    corr: String,
    status: String,
    deadline: Option<Timestamp>,
}

impl Row {
    fn pair(self) -> Outcome<Pair> {
        let status = PairStatus::parse(&self.status);
        Ok(Pair {
            status: status.ok_or_else(|| AppError::Inconsistent("a pair's status is none".to_owned()))?,
            task_id: self.task_id,
            respondent: self.respondent,
            asker: self.asker,
            corr: self.corr,
            deadline: self.deadline,
        })
    }
}

/// Locks the exchanges of these tasks and respondents, in the order of their names.
///
/// # Errors
/// A database error; a stored status is invalid.
pub async fn lock(
    conn: &mut PgConnection,
    named: &[(&str, &str)],
) -> Outcome<HashMap<(String, String), Pair>> {
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let (tasks, respondents): (Vec<&str>, Vec<&str>) = named.iter().copied().unzip();
    let rows = sqlx::query_as!(
        Row,
        "-- aee_pairs::lock
         SELECT p.task_id, p.respondent, p.asker, p.corr, p.status, p.deadline
         FROM UNNEST($1::text[], $2::text[]) AS n (task_id, respondent)
         JOIN aee_pairs p ON p.task_id = n.task_id AND p.respondent = n.respondent
         ORDER BY p.task_id, p.respondent FOR UPDATE OF p",
        &tasks as &[&str],
        &respondents as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| row.pair().map(|pair| ((pair.task_id.clone(), pair.respondent.clone()), pair)))
        .collect()
}

/// Locks the exchanges of a task, each with the deciding person and time, if decided.
pub(crate) async fn lock_task(conn: &mut PgConnection, task: &str) -> Outcome<Vec<(Pair, Option<Decided>)>> {
    let rows = sqlx::query!(
        "-- aee_pairs::lock_task
         SELECT task_id, respondent, asker, corr, status, deadline, decided_by, decided_at FROM aee_pairs
         WHERE task_id = $1 ORDER BY respondent FOR UPDATE",
        task
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let decided = row.decided_by.zip(row.decided_at);
            let (task_id, respondent) = (row.task_id, row.respondent);
            let (asker, corr, status, deadline) = (row.asker, row.corr, row.status, row.deadline);
            Ok((Row { task_id, respondent, asker, corr, status, deadline }.pair()?, decided))
        })
        .collect()
}

/// Opens the held exchanges of a task that a person has approved.
pub(crate) async fn agree(
    conn: &mut PgConnection,
    task: &str,
    who: &str,
    at: Timestamp,
    reason: Option<&str>,
) -> Outcome<()> {
    sqlx::query!(
        "-- aee_pairs::agree
         UPDATE aee_pairs SET status = 'open', decided_by = $2, decided_at = $3, reason = $4
         WHERE task_id = $1 AND status = 'held'",
        task,
        who,
        at,
        reason
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Closes the held exchanges of a task that a person has declined, by the envelope of the refusal.
pub(crate) async fn decline(
    conn: &mut PgConnection,
    task: &str,
    ended_by: &str,
    who: &str,
    at: Timestamp,
    reason: Option<&str>,
) -> Outcome<()> {
    sqlx::query!(
        "-- aee_pairs::decline
         UPDATE aee_pairs SET status = 'closed', ended_by = $2, decided_by = $3, decided_at = $4, reason = $5
         WHERE task_id = $1 AND status = 'held'",
        task,
        ended_by,
        who,
        at,
        reason
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the exchanges of these tasks.
///
/// # Errors
/// A database error; a stored status is invalid.
pub async fn of(conn: &mut PgConnection, tasks: &[&str]) -> Outcome<Vec<Pair>> {
    let rows = sqlx::query_as!(
        Row,
        "-- aee_pairs::of
         SELECT task_id, respondent, asker, corr, status, deadline FROM aee_pairs
         WHERE task_id = ANY($1) ORDER BY task_id, respondent",
        tasks as &[&str]
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Row::pair).collect()
}

/// Inserts new exchanges.
pub(crate) async fn insert(conn: &mut PgConnection, pairs: &[Pair], now: Timestamp) -> Outcome<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let text = |of: fn(&Pair) -> &str| -> Vec<&str> { pairs.iter().map(of).collect() };
    let deadlines: Vec<Option<Timestamp>> = pairs.iter().map(|pair| pair.deadline).collect();
    sqlx::query!(
        "-- aee_pairs::insert
         INSERT INTO aee_pairs (task_id, respondent, asker, corr, status, deadline, created_at)
         SELECT task_id, respondent, asker, corr, status, deadline, $7
         FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
              AS p (task_id, respondent, asker, corr, status, deadline)",
        &text(|pair| &pair.task_id) as &[&str],
        &text(|pair| &pair.respondent) as &[&str],
        &text(|pair| &pair.asker) as &[&str],
        &text(|pair| &pair.corr) as &[&str],
        &text(|pair| pair.status.as_str()) as &[&str],
        &deadlines as &[Option<Timestamp>],
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Closes exchanges, given as (task, respondent, id of the closing envelope).
///
/// # Errors
/// A database error.
pub async fn close(conn: &mut PgConnection, ended: &[(String, String, String)]) -> Outcome<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let text = |of: fn(&(String, String, String)) -> &str| -> Vec<&str> { ended.iter().map(of).collect() };
    sqlx::query!(
        "-- aee_pairs::close
         UPDATE aee_pairs p SET status = 'closed', ended_by = e.ended_by
         FROM UNNEST($1::text[], $2::text[], $3::text[]) AS e (task_id, respondent, ended_by)
         WHERE p.task_id = e.task_id AND p.respondent = e.respondent",
        &text(|(task, _, _)| task) as &[&str],
        &text(|(_, respondent, _)| respondent) as &[&str],
        &text(|(_, _, by)| by) as &[&str]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Marks up to `limit` overdue exchanges as timed out, and returns them.
pub(crate) async fn time_out(conn: &mut PgConnection, now: Timestamp, limit: i64) -> Outcome<Vec<Pair>> {
    let due = sqlx::query_as!(
        Row,
        "-- aee_pairs::time_out
         WITH due AS (
             SELECT task_id, respondent FROM aee_pairs
             WHERE status IN ('open', 'held') AND deadline IS NOT NULL AND deadline <= $1
             ORDER BY deadline LIMIT $2 FOR UPDATE SKIP LOCKED)
         UPDATE aee_pairs p SET status = 'timed_out' FROM due d
         WHERE p.task_id = d.task_id AND p.respondent = d.respondent
         RETURNING p.task_id, p.respondent, p.asker, p.corr, p.status, p.deadline",
        now,
        limit
    )
    .fetch_all(conn)
    .await?;
    due.into_iter().map(Row::pair).collect()
}

/// Deletes the exchanges of deleted tasks.
pub(crate) async fn forget(conn: &mut PgConnection, tasks: &[String]) -> Outcome<()> {
    sqlx::query!("-- aee_pairs::forget\n DELETE FROM aee_pairs WHERE task_id = ANY($1)", tasks)
        .execute(conn)
        .await?;
    Ok(())
}
