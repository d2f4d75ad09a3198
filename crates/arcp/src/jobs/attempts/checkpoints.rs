//! Checkpoints: the progress that an attempt stores for the next one, which receives it with its claim. A job has one,
//! the latest. It is written under the job's lock and its claim (`locked.rs`). Table `job_checkpoints`.

use entente_domain::clock::Timestamp;
use entente_domain::ids::JobId;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::Outcome;
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::columns::{column, number};

/// Maximum bytes of a checkpoint: a command gets it as an environment variable (`entente worker`), of which Linux takes
/// 128 KiB.
const CHECKPOINT_BYTES: usize = 100 * 1024;

/// Checks the size of a checkpoint.
pub(in crate::jobs) fn check(checkpoint: &RawValue) -> Result<String, Refusal> {
    let text = checkpoint.get();
    if text.len() <= CHECKPOINT_BYTES {
        return Ok(text.to_owned());
    }
    let message = format!(
        "`checkpoint` has more than {CHECKPOINT_BYTES} bytes. Store what is large elsewhere, and keep a reference to it here."
    );
    Err(Refusal::field(Code::TooLarge, "checkpoint", "too_long", message))
}

/// A checkpoint, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Attempt that stored it.
    pub attempt: u32,
    /// Its size.
    pub bytes: u32,
    /// When it was stored.
    pub saved_at: Timestamp,
}

/// Stores the checkpoint of a job in place of an earlier one; its attempt holds the job.
pub(in crate::jobs) async fn put(
    conn: &mut PgConnection,
    job: JobId,
    attempt: u32,
    body: &str,
    now: Timestamp,
) -> Outcome<()> {
    sqlx::query!(
        "-- job_checkpoints::put
         INSERT INTO job_checkpoints (job_id, attempt, body, saved_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (job_id) DO UPDATE SET attempt = excluded.attempt, body = excluded.body, saved_at = excluded.saved_at",
        job.uuid(),
        column(attempt),
        body,
        now
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Describes the checkpoint of a job.
pub(super) async fn of_job(conn: &mut PgConnection, job: JobId) -> Outcome<Option<Checkpoint>> {
    let row = sqlx::query!(
        r#"-- job_checkpoints::of_job
         SELECT attempt, octet_length(body) AS "bytes!", saved_at FROM job_checkpoints WHERE job_id = $1"#,
        job.uuid()
    )
    .fetch_optional(conn)
    .await?;
    let row = row.map(|row| {
        Ok(Checkpoint { attempt: number(row.attempt)?, bytes: number(row.bytes)?, saved_at: row.saved_at })
    });
    row.transpose()
}

/// Deletes the checkpoints of jobs.
pub(super) async fn forget(conn: &mut PgConnection, ids: &[Uuid]) -> Outcome<()> {
    sqlx::query!("-- job_checkpoints::forget\n DELETE FROM job_checkpoints WHERE job_id = ANY($1)", ids)
        .execute(conn)
        .await?;
    Ok(())
}
