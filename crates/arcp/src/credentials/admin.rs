//! The admin view of credentials: lists their states, never their values, and retries revocations (ARCP §14).

use entente_domain::arcp::credentials::State;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{CredentialId, IntentId, JobId};
use entente_domain::log::events::{Draft, Kind};
use entente_kernel::{AppError, Caller, IntentTx, Outcome, not_found, unknown};
use serde_json::json;
use sqlx::PgConnection;

use super::rows;
use crate::Ctx;

/// Filters for listing credentials.
#[derive(Debug, Default)]
pub struct CredentialFilter {
    /// Only values in this state.
    pub state: Option<State>,
    /// Only credentials after this one.
    pub after: Option<CredentialId>,
    /// Maximum number of credentials; each is listed with all of its values.
    pub limit: u32,
}

/// One value of a credential, without the secret.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The credential.
    pub id: CredentialId,
    /// The value's generation.
    pub generation: u32,
    /// The job that it was made for.
    pub job_id: JobId,
    /// Its provisioner.
    pub provisioner: String,
    /// Its state.
    pub state: State,
    /// When it was requested.
    pub asked_at: Timestamp,
    /// When it was no longer needed.
    pub ended_at: Option<Timestamp>,
    /// Number of revocation attempts.
    pub attempts: u32,
    /// When the next attempt is due.
    pub due_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
}

struct Row {
    id: uuid::Uuid,
    generation: i32,
    job_id: uuid::Uuid,
    provisioner: String,
    state: String,
    asked_at: Timestamp,
    ended_at: Option<Timestamp>,
    attempts: i32,
    due_at: Option<Timestamp>,
    last_error: Option<String>,
}

impl TryFrom<Row> for Listed {
    type Error = AppError;

    fn try_from(row: Row) -> Outcome<Self> {
        let state = State::parse(&row.state).ok_or_else(|| unknown("state of a credential", &row.state))?;
        let number = |n: i32| u32::try_from(n).unwrap_or(0);
        Ok(Self {
            id: row.id.into(),
            generation: number(row.generation),
            job_id: row.job_id.into(),
            provisioner: row.provisioner,
            state,
            asked_at: row.asked_at,
            ended_at: row.ended_at,
            attempts: number(row.attempts),
            due_at: row.due_at.filter(|_| state == State::Revoking),
            last_error: row.last_error,
        })
    }
}

/// Lists credentials with all of their values, oldest first.
///
/// # Errors
/// The scope `admin` is missing.
pub async fn list(ctx: &Ctx, caller: &Caller, filter: &CredentialFilter) -> Outcome<Vec<Listed>> {
    caller.require(Scope::Admin)?;
    let mut conn = ctx.pool.acquire().await?;
    page(&mut conn, filter).await
}

async fn page(conn: &mut PgConnection, filter: &CredentialFilter) -> Outcome<Vec<Listed>> {
    let states: Vec<String> = State::ALL
        .iter()
        .filter(|state| filter.state.is_none_or(|only| only == **state))
        .map(|state| state.as_str().to_owned())
        .collect();
    let rows = sqlx::query_as!(
        Row,
        "-- credentials::page
         SELECT id, generation, job_id, provisioner, state, asked_at, ended_at, attempts, due_at, last_error
         FROM credentials WHERE state = ANY ($1) AND id IN (
             SELECT id FROM credentials WHERE state = ANY ($1) AND ($2::uuid IS NULL OR id > $2)
             GROUP BY id ORDER BY id LIMIT $3)
         ORDER BY id, generation",
        &states,
        filter.after.map(CredentialId::uuid),
        i64::from(filter.limit)
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Listed::try_from).collect()
}

async fn one(conn: &mut PgConnection, id: CredentialId) -> Outcome<Vec<Listed>> {
    let rows = sqlx::query_as!(
        Row,
        "-- credentials::one
         SELECT id, generation, job_id, provisioner, state, asked_at, ended_at, attempts, due_at, last_error
         FROM credentials WHERE id = $1 ORDER BY generation",
        id.uuid()
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(Listed::try_from).collect()
}

/// Retries the revocation of a credential at once, from the start of its schedule; has no effect on a
/// credential that is not waiting for revocation.
///
/// # Errors
/// The scope `admin` is missing; the credential does not exist.
pub async fn retry(ctx: &Ctx, caller: &Caller, id: CredentialId) -> Outcome<Vec<Listed>> {
    caller.require(Scope::Admin)?;
    let mut work = IntentTx::begin(ctx, caller, IntentId::SYSTEM, None).await?;
    if one(work.conn(), id).await?.is_empty() {
        return Err(not_found("credential"));
    }
    let now = work.now();
    let again = rows::again(work.conn(), id, now).await?;
    if again > 0 {
        let payload = json!({ "credential_id": id, "values": again });
        work.record(Draft::of(Kind::CredentialRetried, &caller.agent, payload));
    }
    let after = one(work.conn(), id).await?;
    work.commit().await?;
    if again > 0 {
        ctx.state.provisioners.ring();
    }
    Ok(after)
}
