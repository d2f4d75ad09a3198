//! Routes of credentials: as their operator sees them, where each stands, never what it is (ARCP §14); and for the worker of
//! a job, which replaces one. How a job comes to them is `jobs.rs` and `claims.rs`.

use actix_web::{get, post, web};
use entente_domain::credentials::State;
use entente_domain::ids::{CredentialId, JobId};
use entente_domain::jobs::wire::Credential;
use entente_domain::keys::Dialect;
use entente_kernel::credentials::{self, Filter, Listed};
use entente_kernel::jobs;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::body::{Body, Query, id};
use super::caller::Asker;
use super::error::Reply;
use super::jobs::job_id;
use super::wire::WireTime;
use super::{Doors, ok};
use crate::http::routes::Routes;

/// Credentials on a page when nothing is said.
const USUAL_PAGE: u32 = 100;

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(retry).service(rotate);
}

/// One value of a credential that was provisioned for a job: without the value.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CredentialRecord)]
struct CredentialBody {
    /// The credential.
    credential_id: CredentialId,
    /// Which of its values, from 1: each rotation makes another.
    generation: u32,
    /// The job that it is for.
    job_id: JobId,
    /// Who made it, by its name in the operator's file.
    #[schema(example = "llm")]
    provisioner: String,
    /// Where the value stands; `stuck` needs a person.
    state: State,
    /// When it was asked for.
    asked_at: WireTime,
    /// When it was no longer needed.
    ended_at: Option<WireTime>,
    /// How often it was tried to take it back.
    attempts: u32,
    /// When that is tried next.
    next_attempt_at: Option<WireTime>,
    /// What went wrong last.
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
/// Those that were provisioned for jobs (ARCP §9.8), the oldest first, each with all its values. Needs the scope `admin`.
#[utoipa::path(operation_id = "list_credentials", tag = "server",
    params(("state" = Option<State>, Query, description = "Only those that stand there"),
           ("after" = Option<CredentialId>, Query, description = "The last credential of the previous page"),
           ("limit" = Option<u32>, Query, description = "At most this many, 1 to 1,000; 100 when nothing is said", maximum = 1000)),
    responses((status = 200, description = "The credentials", body = [CredentialBody])))]
#[get("/credentials")]
async fn list(doors: web::Data<Doors>, asker: Asker, query: Query) -> Reply {
    let filter = Filter {
        state: query.parsed("state", "a state of a credential", State::parse)?,
        after: query.parsed("after", "the id of a credential", |text| text.parse().ok())?,
        limit: query.limit(USUAL_PAGE)?,
    };
    let found = credentials::list(&doors.ctx, &asker.caller, &filter).await?;
    ok(&bodies(found, asker.dialect))
}

/// Retry a revocation
///
/// Has the values of a credential that could not be taken back tried again at once, from the beginning of the schedule. Of a
/// credential that waits for nothing it changes nothing. Needs the scope `admin`.
#[utoipa::path(operation_id = "retry_credential", tag = "server",
    params(("credential_id" = String, Path, description = "The credential")),
    responses((status = 200, description = "Its values", body = [CredentialBody])))]
#[post("/credentials/{credential_id}/retry")]
async fn retry(doors: web::Data<Doors>, asker: Asker, path: web::Path<String>) -> Reply {
    let id: CredentialId = id("credential", &path)?;
    let found = credentials::retry(&doors.ctx, &asker.caller, id).await?;
    ok(&bodies(found, asker.dialect))
}

/// A new value for a credential.
#[derive(Deserialize, ToSchema)]
#[schema(as = CredentialRotation, example = json!({ "claim_token": "ct_…" }))]
struct RotateBody {
    /// The claim's token.
    claim_token: String,
    /// The new value, when the worker has one; else the credential's provisioner makes it.
    value: Option<String>,
}

/// A credential that was rotated.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CredentialRotated)]
struct RotatedBody {
    /// As it works now.
    credential: Credential,
    /// The number of the event that tells of it.
    last_event_seq: i64,
}

/// Rotate a job's credential
///
/// The value before is taken back at once. Followers of the job hear of it in a `status` event without the value; only the
/// session that submitted the job is told that (ARCP §9.8.2).
#[utoipa::path(operation_id = "rotate_job_credential", tag = "workers", request_body = RotateBody,
    params(("job_id" = String, Path, description = "The job"), ("credential_id" = String, Path, description = "Its credential")),
    responses((status = 200, description = "The credential with its new value", body = RotatedBody)))]
#[post("/jobs/{job_id}/credentials/{credential_id}/rotate")]
async fn rotate(
    doors: web::Data<Doors>,
    asker: Asker,
    path: web::Path<(String, String)>,
    body: Body<RotateBody>,
) -> Reply {
    let (job, credential) = path.into_inner();
    let (job, credential) = (job_id(&job)?, id::<CredentialId>("credential", &credential)?);
    let RotateBody { claim_token, value } = body.value;
    let done = jobs::rotate(&doors.ctx, &asker.caller, job, &claim_token, credential, value).await?;
    ok(&RotatedBody { credential: done.credential, last_event_seq: done.last_seq })
}
