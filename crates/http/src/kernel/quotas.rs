//! Routes of quotas: the limits of principals and teams, and their use.

use actix_web::{HttpRequest, get, put, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::identity::quotas::QuotaOverride;
use entente_domain::subjects::{Subject, SubjectKind};
use entente_kernel::identity::quotas;
use entente_kernel::identity::quotas::QuotaView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(put_principal).service(get_principal).service(put_team).service(get_team);
}

/// One quota and its use.
#[derive(Debug, Serialize, ToSchema)]
struct QuotaUse {
    /// The limit in force; null: none.
    #[schema(example = 1_000_000)]
    limit: Option<u64>,
    /// The limit that an admin set, 0 for none; null: the server's default.
    own: Option<u64>,
    /// The amount in use; null if it is not counted, because nothing of this kind is limited.
    used: Option<u64>,
}

impl QuotaUse {
    fn new(limit: u64, own: Option<u64>, used: Option<u64>) -> Self {
        Self { limit: (limit > 0).then_some(limit), own, used }
    }
}

/// Quotas of a principal or a team, with their use.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quotas)]
struct QuotasBody {
    /// Whose they are: `principal:ID` or `team:NAME`.
    #[schema(value_type = String, example = "team:research")]
    scope: Subject,
    /// Requests in progress at once, on each server; streams and long polls do not count.
    open_requests: QuotaUse,
    /// Bytes of request bodies and of sessions' frames in a minute, on each server.
    bytes_per_minute: QuotaUse,
    /// Bytes stored: messages, envelopes, log lines and jobs.
    storage_bytes: QuotaUse,
    /// When the stored bytes were last counted.
    counted_at: Option<WireTime>,
    /// Admin who set limits for this scope; null: it has the server's defaults.
    set_by: Option<String>,
    /// When they were set.
    set_at: Option<WireTime>,
}

impl QuotasBody {
    fn new(view: QuotaView, dialect: Dialect) -> Self {
        let QuotaView { subject, quota, own, set, open_requests, bytes, stored, counted_at } = view;
        let (set_by, set_at) = set.unzip();
        let time = |at| WireTime::new(at, dialect);
        Self {
            scope: subject,
            open_requests: QuotaUse::new(quota.open_requests, own.open_requests, Some(open_requests)),
            bytes_per_minute: QuotaUse::new(quota.bytes_per_minute, own.bytes_per_minute, bytes),
            storage_bytes: QuotaUse::new(quota.storage_bytes, own.storage_bytes, stored),
            counted_at: counted_at.map(time),
            set_by,
            set_at: set_at.map(time),
        }
    }
}

/// Limits to set; 0 means no limit, and a member that is null or absent has the server's default.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewQuotas, example = json!({ "open_requests": 50, "storage_bytes": 1_000_000_000 }))]
struct LimitsBody {
    /// Requests in progress at once, on each server.
    open_requests: Option<u64>,
    /// Bytes of request bodies in a minute, on each server.
    bytes_per_minute: Option<u64>,
    /// Bytes stored.
    storage_bytes: Option<u64>,
}

impl From<LimitsBody> for QuotaOverride {
    fn from(body: LimitsBody) -> Self {
        let LimitsBody { open_requests, bytes_per_minute, storage_bytes } = body;
        Self { open_requests, bytes_per_minute, storage_bytes }
    }
}

async fn set(
    request: &HttpRequest,
    api: &HttpState,
    asker: &Asker,
    subject: Subject,
    body: Body<LimitsBody>,
) -> Reply {
    let once = body.once(request)?;
    let view = quotas::put(&api.ctx, &asker.caller, subject, body.value.into(), once.as_ref()).await?;
    ok(&QuotasBody::new(view, asker.dialect))
}

async fn show(api: &HttpState, asker: &Asker, subject: Subject) -> Reply {
    let view = quotas::get(&api.ctx, &asker.caller, subject).await?;
    ok(&QuotasBody::new(view, asker.dialect))
}

/// Set the quotas of a principal
///
/// Needs the scope `admin`. Replaces those set before; an empty object takes them back. They hold for all keys and agents of
/// the principal, on all servers within a second. A request beyond one is 429 with `Retry-After`, or 403 `storage_full`;
/// keys with the scope `admin` are counted and never refused.
#[utoipa::path(operation_id = "put_principal_quotas", tag = "principals", request_body = LimitsBody,
    params(("principal_id" = String, Path, description = "Id of the principal"), IdempotencyKey),
    responses((status = 200, description = "The quotas, with their use", body = QuotasBody)))]
#[put("/principals/{principal_id}/quotas")]
async fn put_principal(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<LimitsBody>,
) -> Reply {
    set(&request, &api, &asker, Subject::of(SubjectKind::Principal, path.into_inner()), body).await
}

/// Get the quotas of a principal
///
/// With their use; requests and bytes as this server counts them. For the principal itself, also as `me`, and for admins.
#[utoipa::path(operation_id = "get_principal_quotas", tag = "principals",
    params(("principal_id" = String, Path, description = "Id of the principal, or `me` for one's own")),
    responses((status = 200, description = "The quotas, with their use", body = QuotasBody)))]
#[get("/principals/{principal_id}/quotas")]
async fn get_principal(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let path = path.into_inner();
    let id = if path == "me" { asker.caller.principal().to_owned() } else { path };
    show(&api, &asker, Subject::of(SubjectKind::Principal, id)).await
}

/// Set the quotas of a team
///
/// Needs the scope `admin`. Limits the use of its members together; members also have quotas of their own. Otherwise as
/// the quotas of a principal.
#[utoipa::path(operation_id = "put_team_quotas", tag = "budgets", request_body = LimitsBody,
    params(("name" = String, Path, description = "Name of the team"), IdempotencyKey),
    responses((status = 200, description = "The quotas, with their use", body = QuotasBody)))]
#[put("/teams/{name}/quotas")]
async fn put_team(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<LimitsBody>,
) -> Reply {
    set(&request, &api, &asker, Subject::of(SubjectKind::Team, path.into_inner()), body).await
}

/// Get the quotas of a team
///
/// With their use; requests and bytes as this server counts them. For its members and for admins.
#[utoipa::path(operation_id = "get_team_quotas", tag = "budgets",
    params(("name" = String, Path, description = "Name of the team")),
    responses((status = 200, description = "The quotas, with their use", body = QuotasBody)))]
#[get("/teams/{name}/quotas")]
async fn get_team(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    show(&api, &asker, Subject::of(SubjectKind::Team, path.into_inner())).await
}
