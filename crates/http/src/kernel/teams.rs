//! Routes of teams: named groups of principals, for budgets and stops.

use actix_web::{HttpRequest, HttpResponse, delete, get, put, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::limits::PAGE;
use entente_kernel::identity::teams;
use entente_kernel::identity::teams::Team;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, Query};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(put).service(list).service(get).service(remove);
}

/// A team: a named group of principals.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Team)]
struct TeamBody {
    /// Its name.
    #[schema(example = "research")]
    name: String,
    /// Ids of its members.
    members: Vec<String>,
    /// Principal that created it.
    created_by: String,
    /// When it was created.
    created_at: WireTime,
}

impl TeamBody {
    fn new(team: Team, dialect: Dialect) -> Self {
        let created_at = WireTime::new(team.created_at, dialect);
        Self { name: team.name, members: team.members, created_by: team.created_by, created_at }
    }
}

/// The members of a team.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TeamMembers, example = json!({ "members": ["agent.researcher", "agent.writer"] }))]
struct MembersBody {
    /// Ids of principals.
    members: Vec<String>,
}

/// A page of teams.
#[derive(Debug, Serialize, ToSchema)]
struct TeamList {
    /// The teams, ordered by name.
    teams: Vec<TeamBody>,
}

/// Create a team, or replace its members
///
/// Needs the scope `admin`. The budgets of a team pay the costs of its members, and a stop of it stops all of them.
#[utoipa::path(operation_id = "put_team", tag = "budgets", request_body = MembersBody,
    params(("name" = String, Path, description = "Name of the team"), IdempotencyKey),
    responses((status = 200, description = "The team", body = TeamBody)))]
#[put("/teams/{name}")]
async fn put(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<MembersBody>,
) -> Reply {
    let once = body.once(&request)?;
    let team = teams::put(&api.ctx, &asker.caller, &path, body.value.members, once.as_ref()).await?;
    ok(&TeamBody::new(team, asker.dialect))
}

/// List teams
///
/// Needs the scope `admin`.
#[utoipa::path(operation_id = "list_teams", tag = "budgets",
    params(("after" = Option<String>, Query, description = "Name of the last team of the previous page"), Limit1000),
    responses((status = 200, description = "The teams", body = TeamList)))]
#[get("/teams")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let found = teams::list(&api.ctx, &asker.caller, query.text("after"), query.limit(PAGE)?).await?;
    ok(&TeamList { teams: found.into_iter().map(|team| TeamBody::new(team, asker.dialect)).collect() })
}

/// Get a team
///
/// For its members and for admins.
#[utoipa::path(operation_id = "get_team", tag = "budgets",
    params(("name" = String, Path, description = "Name of the team")),
    responses((status = 200, description = "The team", body = TeamBody)))]
#[get("/teams/{name}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    ok(&TeamBody::new(teams::get(&api.ctx, &asker.caller, &path).await?, asker.dialect))
}

/// Remove a team
///
/// Needs the scope `admin`. A team that an open budget or a stop in force names cannot be removed.
#[utoipa::path(operation_id = "remove_team", tag = "budgets",
    params(("name" = String, Path, description = "Name of the team")),
    responses((status = 204, description = "The team is removed")))]
#[delete("/teams/{name}")]
async fn remove(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    teams::remove(&api.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}
