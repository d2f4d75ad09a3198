//! Labels of jobs. Table `job_labels`.

use std::collections::BTreeMap;

use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::jobs::labels::Labels;
use entente_domain::ids::JobId;
use entente_kernel::Outcome;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Extra;

/// Inserts the labels of new jobs.
pub(super) async fn insert(conn: &mut PgConnection, fresh: &[(&Job, &Extra)]) -> Outcome<()> {
    let each = fresh.iter().flat_map(|(job, extra)| extra.labels.iter().map(move |label| (*job, label)));
    let each: Vec<(&Job, (&String, &String))> = each.collect();
    if each.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- job_labels::insert
         INSERT INTO job_labels (job_id, key, value, principal)
         SELECT * FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::text[])",
        &each.iter().map(|(job, _)| job.id.uuid()).collect::<Vec<_>>(),
        &each.iter().map(|(_, (key, _))| key.as_str()).collect::<Vec<_>>() as &[&str],
        &each.iter().map(|(_, (_, value))| value.as_str()).collect::<Vec<_>>() as &[&str],
        &each.iter().map(|(job, _)| job.principal.as_str()).collect::<Vec<_>>() as &[&str]
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Loads the labels of these jobs; jobs without any are left out.
pub(in crate::jobs) async fn load(
    conn: &mut PgConnection,
    jobs: &[JobId],
) -> Outcome<BTreeMap<JobId, Labels>> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        "-- job_labels::load
         SELECT job_id, key, value FROM job_labels WHERE job_id = ANY($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    let mut labels: BTreeMap<JobId, Labels> = BTreeMap::new();
    for row in rows {
        labels.entry(row.job_id.into()).or_default().insert(row.key, row.value);
    }
    Ok(labels)
}

/// Deletes the labels of deleted jobs.
pub(super) async fn drop(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_labels::drop\n DELETE FROM job_labels WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
