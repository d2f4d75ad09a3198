//! Rows beside a job's own, which few jobs have: labels, failures and dead letters, links to jobs that were run again, signals,
//! costs, receivers of push notifications. A job that has none of them costs no statement. Operations on them are in `control`.

pub(in crate::jobs) mod costs;
pub(in crate::jobs) mod failures;
pub(in crate::jobs) mod labels;
pub(in crate::jobs) mod lapsed;
pub(in crate::jobs) mod pushes;
pub(in crate::jobs) mod reruns;
pub(in crate::jobs) mod signals;

use entente_domain::arcp::budgets::Budget;
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::labels::Labels;
use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use self::failures::Failure;
use self::reruns::{Links, Rerun, SHOWN};
use self::signals::Marks;

/// Records of a new job beside its own row.
#[derive(Debug, Clone, Default)]
pub(in crate::jobs) struct Extra {
    /// Its labels.
    pub labels: Labels,
    /// The job that it runs again.
    pub rerun: Option<Rerun>,
}

/// Records of a job beside its own row, as shown to callers that may see all of it.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Its labels.
    pub labels: Labels,
    /// Its failed end.
    pub failure: Option<Failure>,
    /// The job that it runs again, and the jobs that run it again; a list has the first only.
    pub links: Links,
    /// Its own cost, by currency.
    pub cost: Budget,
    /// Numbers of its signals; a list has none.
    pub signals: Marks,
}

/// Loads the records of a job beside its own row.
pub(in crate::jobs) async fn load(conn: &mut PgConnection, id: JobId) -> Outcome<Beside> {
    let row = sqlx::query!(
        r#"-- job_records::load
         SELECT c.signals_sent, c.signals_acked,
                (SELECT json_object_agg(l.key, l.value)::text FROM job_labels l WHERE l.job_id = c.job_id) AS labels,
                f.code AS "code?", f.is_open AS "is_open?", f.resolved_at, f.resolved_by, f.note,
                r.source_id AS "source_id?",
                ARRAY(SELECT n.job_id FROM job_reruns n WHERE n.source_id = c.job_id ORDER BY n.job_id LIMIT $2) AS "reruns!",
                (SELECT json_object_agg(s.currency, trim_scale(s.amount)::text)::text FROM job_costs s
                 WHERE s.job_id = c.job_id) AS costs
         FROM job_clock c LEFT JOIN job_failures f ON f.job_id = c.job_id LEFT JOIN job_reruns r ON r.job_id = c.job_id
         WHERE c.job_id = $1"#,
        id.uuid(),
        SHOWN
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(Beside::default()) };
    let failure = row.code.zip(row.is_open).map(|(code, is_open)| {
        let (resolved_at, resolved_by, note) = (row.resolved_at, row.resolved_by, row.note);
        Failure { code, is_open, resolved_at, resolved_by, note }
    });
    Ok(Beside {
        labels: row.labels.as_deref().map(serde_json::from_str).transpose()?.unwrap_or_default(),
        failure,
        links: Links {
            rerun_of: row.source_id.map(JobId::from),
            reruns: row.reruns.into_iter().map(JobId::from).collect(),
        },
        cost: row.costs.as_deref().map(serde_json::from_str).transpose()?.unwrap_or_default(),
        signals: Marks { sent: row.signals_sent, acked: row.signals_acked },
    })
}

/// Inserts the rows of new jobs.
pub(in crate::jobs) async fn insert(conn: &mut PgConnection, fresh: &[(&Job, &Extra)]) -> Outcome<()> {
    labels::insert(conn, fresh).await?;
    reruns::insert(conn, fresh).await
}

/// Resolves the dead letters of the jobs that these accepted jobs run again. If the credentials of a new job cannot be had, it is
/// never accepted, and the letter stays open.
pub(in crate::jobs) async fn accepted(
    conn: &mut PgConnection,
    jobs: &[JobId],
    now: Timestamp,
) -> Outcome<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    failures::resolve_rerun(conn, &jobs.iter().map(|id| id.uuid()).collect::<Vec<_>>(), now).await
}

/// Deletes the rows of deleted jobs.
pub(in crate::jobs) async fn drop_all(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    if ids.is_empty() {
        return Ok(());
    }
    labels::drop(conn, ids).await?;
    failures::drop(conn, ids).await?;
    reruns::drop(conn, ids).await?;
    signals::drop(conn, ids).await?;
    costs::drop(conn, ids).await?;
    lapsed::drop(conn, ids).await?;
    pushes::drop(conn, ids).await
}
