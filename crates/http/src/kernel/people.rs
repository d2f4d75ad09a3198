//! Routes of people: the list of those who can be asked, and the access of people by passwords, one-time links and accounts of a provider. People
//! then work on the web pages (`api/src/web`).

use actix_web::{HttpRequest, HttpResponse, delete, get, post, put, web};
use entente_domain::identity::people::{LINK_SECONDS, LINK_SECONDS_MAX};
use entente_domain::limits::PAGE;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::people;
use entente_kernel::identity::people::LinkAsk;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, OptionalBody, Query};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, created, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(list).service(password).service(link).service(release);
}

/// A person to whom a decision can be put.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Person)]
struct PersonBody {
    /// Principal id, which `POST /moments` takes as `principal_id`.
    #[schema(example = "human.ada")]
    id: String,
    /// Display name.
    display_name: Option<String>,
}

/// A page of people.
#[derive(Debug, Serialize, ToSchema)]
struct PersonList {
    /// The people, ordered by id.
    people: Vec<PersonBody>,
}

/// List the people who can be asked
///
/// Needs the scope `moments:write`, as asking does.
#[utoipa::path(operation_id = "list_people", tag = "people",
    params(("after" = Option<String>, Query, description = "Id of the last person of the previous page"), Limit1000),
    responses((status = 200, description = "The people", body = PersonList)))]
#[get("/people")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    let found = people::list(&api.ctx, &asker.caller, query.text("after"), query.limit(PAGE)?).await?;
    let body = |person: people::Person| PersonBody { id: person.id, display_name: person.display_name };
    ok(&PersonList { people: found.into_iter().map(body).collect() })
}

/// A password to set.
#[derive(Deserialize, ToSchema)]
#[schema(as = Password, example = json!({ "password": "four words are enough" }))]
struct PasswordBody {
    /// The password: 12 characters or more.
    password: String,
    /// Whether a login with this password also covers operations that need the scope `admin`.
    #[serde(default)]
    admin: bool,
}

/// The response to setting a password.
#[derive(Debug, Serialize, ToSchema)]
struct PasswordSet {
    /// The person.
    principal_id: String,
    /// Whether the password covers operations that need the scope `admin`.
    admin: bool,
    /// When the password was set.
    set_at: WireTime,
}

/// Set a person's password
///
/// Needs the scope `admin` and the power to act as that person; an agent's key never has it. Logs out every
/// browser that is logged in as that person. The person can decide nothing with this password until they have
/// logged in with it and chosen another. Only its argon2id hash is stored.
#[utoipa::path(operation_id = "set_password", tag = "people", request_body = PasswordBody,
    params(("principal_id" = String, Path, description = "Person, by principal id")),
    responses((status = 200, description = "The password was set", body = PasswordSet)))]
#[put("/people/{principal_id}/password")]
async fn password(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<PasswordBody>,
) -> Reply {
    let PasswordBody { password, admin } = body.value;
    let set_at = people::set_password(&api.ctx, &asker.caller, &path, password, admin).await?;
    let principal_id = path.into_inner();
    ok(&PasswordSet { principal_id, admin, set_at: WireTime::new(set_at, asker.dialect) })
}

/// A one-time link to create.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = Link, example = json!({ "expires_in": 3600 }))]
struct LinkBody {
    /// Whether a login with this link also covers operations that need the scope `admin`.
    #[serde(default)]
    admin: bool,
    /// Seconds until the unopened link expires: up to a week; defaults to one day.
    expires_in: Option<u32>,
    /// The page that the link opens; defaults to the inbox.
    leads_to: Option<String>,
}

/// A newly created link.
#[derive(Debug, Serialize, ToSchema)]
struct NewLinkBody {
    /// The person whom the link logs in.
    principal_id: String,
    /// Path of the link on this server, returned only this once; null when a repeated request finds the link
    /// already created.
    #[schema(example = "/l/…")]
    path: Option<String>,
    /// When the link expires.
    expires_at: WireTime,
}

/// Create a one-time login link for a person
///
/// Requires the same rights as setting the password. The link opens a page with a button; the first visitor
/// to press it is logged in and decides as that person. The person's answers name the principal that created
/// the link. Revoking the key that created the link voids it.
#[utoipa::path(operation_id = "make_link", tag = "people", request_body = Option<LinkBody>,
    params(("principal_id" = String, Path, description = "Person that the link logs in"), IdempotencyKey),
    responses((status = 201, description = "The link", body = NewLinkBody)))]
#[post("/people/{principal_id}/links")]
async fn link(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<LinkBody>,
) -> Reply {
    let once = body.0.once(&request)?;
    let LinkBody { admin, expires_in, leads_to } = body.0.value;
    let seconds = expires_in.unwrap_or(LINK_SECONDS);
    if !(1..=LINK_SECONDS_MAX).contains(&seconds) {
        let message = format!("`expires_in` must be a number of seconds from 1 to {LINK_SECONDS_MAX}.");
        return Err(Refusal::field(Code::InvalidRequest, "expires_in", "range", message).into());
    }
    let ask = LinkAsk { admin, leads_to: leads_to.unwrap_or_else(|| "/inbox".to_owned()), seconds };
    let made = people::link(&api.ctx, &asker.caller, &path, ask, once.as_ref()).await?;
    created(&NewLinkBody {
        principal_id: path.into_inner(),
        path: made.path.map(|path| path.0),
        expires_at: WireTime::new(made.expires_at, asker.dialect),
    })
}

/// Release a person from the account of the provider
///
/// Requires the same rights as setting the password. The account, with which the person logged in at the operator's OpenID
/// Connect provider, opens nothing any more, and everybody who is logged in as that person is logged out. The next
/// account that names the person may become that person at its first login.
#[utoipa::path(operation_id = "release_account", tag = "people",
    params(("principal_id" = String, Path, description = "Person, by principal id")),
    responses((status = 204, description = "The person is released")))]
#[delete("/people/{principal_id}/account")]
async fn release(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    people::release_account(&api.ctx, &asker.caller, &path).await?;
    Ok(HttpResponse::NoContent().finish())
}
