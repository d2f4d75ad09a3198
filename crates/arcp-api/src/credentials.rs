//! Endpoints for provisioned credentials: operators see their states, never their values (ARCP §14), and workers
//! rotate the credentials of a job. Jobs receive them through `jobs.rs` and `claims.rs`.

use actix_web::{get, post, web};
use entente_arcp::credentials::{CredentialFilter, Listed};
use entente_arcp::{credentials, jobs};
use entente_domain::arcp::credentials::State;
use entente_domain::arcp::jobs::wire::Credential;
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{CredentialId, JobId};
use entente_http::body::{Body, Limit100, Query, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::ok;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ApiState;
use crate::jobs::job_id;

/// Default page size.
const USUAL_PAGE: u32 = 100;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(retry).service(rotate);
}

/// One generation of a credential provisioned for a job, without its value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CredentialRecord)]
struct CredentialBody {
    /// The credential.
    credential_id: CredentialId,
    /// Number of this value of the credential, from 1; each rotation adds one.
    generation: u32,
    /// The job it was provisioned for.
    job_id: JobId,
    /// The provisioner, by its name in the operator's file.
    #[schema(example = "llm")]
    provisioner: String,
    /// The value's state; `stuck` requires a person to act.
    state: State,
    /// When it was requested.
    asked_at: WireTime,
    /// When it was no longer needed.
    ended_at: Option<WireTime>,
    /// Number of attempts to revoke it.
    attempts: u32,
    /// When the next attempt is due.
    next_attempt_at: Option<WireTime>,
    /// The latest error.
    #[schema(example = "it answered 503")]
    last_error: Option<String>,
}

impl CredentialBody {
    fn new(listed: Listed, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            credential_id: listed.id,
            generation: listed.generation,
            job_id: listed.job_id,
            provisioner: listed.provisioner,
            state: listed.state,
            asked_at: time(listed.asked_at),
            ended_at: listed.ended_at.map(time),
            attempts: listed.attempts,
            next_attempt_at: listed.due_at.map(time),
            last_error: listed.last_error,
        }
    }
}

fn bodies(listed: Vec<Listed>, dialect: Dialect) -> Vec<CredentialBody> {
    listed.into_iter().map(|one| CredentialBody::new(one, dialect)).collect()
}

/// List credentials
///
/// Lists the credentials provisioned for jobs (ARCP §9.8), oldest first, each with all its generations. Requires the
/// scope `admin`.
#[utoipa::path(operation_id = "list_credentials", tag = "server",
    params(("state" = Option<State>, Query, description = "Only credentials in this state"),
           ("after" = Option<CredentialId>, Query, description = "Last credential of the previous page"), Limit100),
    responses((status = 200, description = "The credentials", body = [CredentialBody])))]
#[get("/credentials")]
async fn list(api: web::Data<ApiState>, asker: Asker, query: Query) -> Reply {
    let filter = CredentialFilter {
        state: query.parsed("state", "a state of a credential", State::parse)?,
        after: query.parsed("after", "the id of a credential", |text| text.parse().ok())?,
        limit: query.limit(USUAL_PAGE)?,
    };
    let found = credentials::list(&api.ctx, &asker.caller, &filter).await?;
    ok(&bodies(found, asker.dialect))
}

/// Retry a revocation
///
/// Immediately retries the revocations of a credential that failed, restarting their schedule. Has no effect on a
/// credential with no revocation pending. Requires the scope `admin`.
#[utoipa::path(operation_id = "retry_credential", tag = "server",
    responses((status = 200, description = "All generations of the credential", body = [CredentialBody])))]
#[post("/credentials/{credential_id}/retry")]
async fn retry(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let id: CredentialId = id("credential", &path)?;
    let found = credentials::retry(&api.ctx, &asker.caller, id).await?;
    ok(&bodies(found, asker.dialect))
}

/// A credential rotation.
#[derive(Deserialize, ToSchema)]
#[schema(as = CredentialRotation, example = json!({ "claim_token": "ct_…" }))]
struct RotateBody {
    /// The claim's token.
    claim_token: String,
    /// The new value, if the worker has one; otherwise the credential's provisioner creates it.
    value: Option<String>,
}

/// A rotated credential.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CredentialRotated)]
struct RotatedBody {
    /// The credential with its new value.
    credential: Credential,
    /// Number of the event that announces the rotation.
    last_event_seq: i64,
}

/// Rotate a job's credential
///
/// Revokes the previous value immediately. Followers of the job see a `status` event without the value; only the
/// session that submitted the job receives the value (ARCP §9.8.2).
#[utoipa::path(operation_id = "rotate_job_credential", tag = "workers", request_body = RotateBody,
    responses((status = 200, description = "The credential with its new value", body = RotatedBody)))]
#[post("/jobs/{job_id}/credentials/{credential_id}/rotate")]
async fn rotate(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<RotateBody>,
) -> Reply {
    let (job, credential) = path.into_inner();
    let (job, credential) = (job_id(&job)?, id::<CredentialId>("credential", &credential)?);
    let RotateBody { claim_token, value } = body.value;
    let done = jobs::rotate(&api.ctx, &asker.caller, job, &claim_token, credential, value).await?;
    ok(&RotatedBody { credential: done.credential, last_event_seq: done.last_seq })
}
