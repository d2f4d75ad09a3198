//! Routes of contact points: where a person is told by mail, chat or push that something waits for them, and when.

use actix_web::{HttpRequest, HttpResponse, delete, get, patch, post, web};
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::ids::ContactId;
use entente_domain::notifications::{Address, ContactKind, ContactSettings, PushKeys};
use entente_kernel::notifications::Contact;
use entente_kernel::notifications::contact_points::{self, ContactAsk, ContactChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, id};
use crate::caller::Asker;
use crate::error::Reply;
use crate::routes::Routes;
use crate::wire::WireTime;
use crate::{HttpState, created, ok};

pub(super) fn routes(config: &mut Routes<'_>) {
    config.service(push_key).service(create).service(list).service(get).service(change).service(remove);
    config.service(confirm).service(test);
}

/// A contact point of a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContactPoint)]
struct ContactBody {
    /// Id of the contact point.
    #[schema(value_type = String, example = "cp_01JZK4Q0W3H2N7V8R5T6Y1X9ZC")]
    id: ContactId,
    /// The person.
    principal_id: String,
    /// Kind.
    kind: ContactKind,
    /// The mail address, or of a URL, which is a secret, only the host.
    #[schema(example = "ada@example.com")]
    address: String,
    /// Name that the person gave it.
    label: Option<String>,
    /// The topics it is told of, when, and whether with quotes.
    settings: ContactSettings,
    /// When it was created.
    created_at: WireTime,
    /// When its address was confirmed; null if it still has to be.
    confirmed_at: Option<WireTime>,
    /// Whether it is told of items that wait for the person; before it is confirmed, only its code is sent there.
    active: bool,
    /// Why it is told nothing, if it was switched off: by its person, or because it is gone or failed for days.
    disabled_reason: Option<String>,
    /// When a message was last taken.
    last_sent_at: Option<WireTime>,
    /// The last error, if messages fail now.
    last_error: Option<String>,
    /// When it occurred.
    last_error_at: Option<WireTime>,
}

impl ContactBody {
    fn new(contact: Contact, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        let active = contact.is_told();
        let health = contact.health;
        let fails = health.failures > 0 || contact.disabled.is_some();
        Self {
            id: contact.id,
            principal_id: contact.person,
            kind: contact.address.kind,
            address: contact.address.masked(),
            label: contact.label,
            settings: contact.settings,
            created_at: time(contact.created_at),
            confirmed_at: contact.confirmed_at.map(time),
            active,
            disabled_reason: contact.disabled.map(|(_, reason)| reason),
            last_sent_at: health.last_sent_at.map(time),
            last_error: health.last_error.filter(|_| fails),
            last_error_at: health.last_error_at.filter(|_| fails).map(time),
        }
    }
}

/// A page of contact points.
#[derive(Debug, Serialize, ToSchema)]
struct ContactPointList {
    /// The contact points, oldest first.
    contact_points: Vec<ContactBody>,
}

/// A contact point to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewContactPoint, example = json!({
    "kind": "mail", "address": "ada@example.com",
    "settings": { "topics": ["decision", "approval"], "quiet_hours": { "from": "22:00", "to": "07:00", "time_zone": "Europe/Berlin" } }
}))]
struct CreateBody {
    /// Kind.
    kind: ContactKind,
    /// A mail address; the URL of an incoming webhook of Slack or of a workflow of Teams; the URL of an ntfy server with the
    /// topic; the endpoint of a browser's push subscription.
    address: String,
    /// Keys of a browser's push subscription; of `web_push` only.
    push_keys: Option<PushKeys>,
    /// A name for it.
    label: Option<String>,
    /// The topics it is told of, when, and whether with quotes.
    #[serde(default)]
    settings: ContactSettings,
}

/// Create a contact point
///
/// Tells the person there what waits for them: decisions, tasks to approve, entries of their inbox. Messages have a link to the
/// page, where the person decides after logging in; an answer to a message reaches nobody. Needs the person's own login:
/// nobody else sets where a person is told.
///
/// A mail address is told nothing until it is confirmed with the code that is sent there (`POST …/confirm`). Up to 10 contact
/// points of a person; a removed one counts for a day.
#[utoipa::path(operation_id = "create_contact_point", tag = "people", request_body = CreateBody,
    params(("principal_id" = String, Path, description = "Person, by principal id"), IdempotencyKey),
    responses((status = 201, description = "The contact point", body = ContactBody)))]
#[post("/people/{principal_id}/contact-points")]
async fn create(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    let once = body.once(&request)?;
    let CreateBody { kind, address, push_keys, label, settings } = body.value;
    let push_keys = push_keys.filter(|_| kind == ContactKind::WebPush);
    let ask = ContactAsk { address: Address { kind, text: address, push_keys }, label, settings };
    let made = contact_points::create(&api.ctx, &asker.caller, &path, ask, once.as_ref()).await?;
    created(&ContactBody::new(made, asker.dialect))
}

/// List a person's contact points
///
/// For the person, and for admins.
#[utoipa::path(operation_id = "list_contact_points", tag = "people",
    params(("principal_id" = String, Path, description = "Person, by principal id")),
    responses((status = 200, description = "The contact points", body = ContactPointList)))]
#[get("/people/{principal_id}/contact-points")]
async fn list(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = contact_points::list(&api.ctx, &asker.caller, &path).await?;
    let contact_points = found.into_iter().map(|one| ContactBody::new(one, asker.dialect)).collect();
    ok(&ContactPointList { contact_points })
}

/// Get a contact point
#[utoipa::path(operation_id = "get_contact_point", tag = "people",
    params(("contact_point_id" = String, Path, description = "The contact point")),
    responses((status = 200, description = "The contact point", body = ContactBody)))]
#[get("/contact-points/{contact_point_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = contact_points::get(&api.ctx, &asker.caller, id("contact point", &path)?).await?;
    ok(&ContactBody::new(found, asker.dialect))
}

/// A change of a contact point; members that are absent stay.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ContactPointChange, example = json!({ "active": false }))]
struct ChangeBody {
    /// A name for it; empty for none.
    label: Option<String>,
    /// The topics it is told of, when, and whether with quotes; replaces all settings.
    settings: Option<ContactSettings>,
    /// Whether it is told of items that wait for the person; before it is confirmed, only its code is sent there.
    active: Option<bool>,
}

/// Change a contact point
///
/// Settings take effect at once, also for items that the person is still to be told of. Switching a contact point on
/// tries it again after failures.
#[utoipa::path(operation_id = "change_contact_point", tag = "people", request_body = ChangeBody,
    params(("contact_point_id" = String, Path, description = "The contact point")),
    responses((status = 200, description = "The contact point", body = ContactBody)))]
#[patch("/contact-points/{contact_point_id}")]
async fn change(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let ChangeBody { label, settings, active } = body.value;
    let change = ContactChange { label, settings, active };
    let changed =
        contact_points::change(&api.ctx, &asker.caller, id("contact point", &path)?, change).await?;
    ok(&ContactBody::new(changed, asker.dialect))
}

/// Remove a contact point
///
/// For the person, and for admins. Items that the person was still to be told of there are not told.
#[utoipa::path(operation_id = "remove_contact_point", tag = "people",
    params(("contact_point_id" = String, Path, description = "The contact point")),
    responses((status = 204, description = "It was removed")))]
#[delete("/contact-points/{contact_point_id}")]
async fn remove(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    contact_points::remove(&api.ctx, &asker.caller, id("contact point", &path)?).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The code that was sent to a contact point.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ContactPointCode, example = json!({ "code": "12345678" }))]
struct CodeBody {
    /// The code.
    code: String,
}

/// Confirm a contact point
///
/// With the code that was sent to its address: valid for a day, and for five attempts.
#[utoipa::path(operation_id = "confirm_contact_point", tag = "people", request_body = CodeBody,
    params(("contact_point_id" = String, Path, description = "The contact point")),
    responses((status = 200, description = "The contact point", body = ContactBody)))]
#[post("/contact-points/{contact_point_id}/confirm")]
async fn confirm(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CodeBody>,
) -> Reply {
    let contact_id = id("contact point", &path)?;
    let confirmed = contact_points::confirm(&api.ctx, &asker.caller, contact_id, &body.value.code).await?;
    ok(&ContactBody::new(confirmed, asker.dialect))
}

/// Try a contact point
///
/// Sends a message there, whatever its settings. The contact point shows the outcome: `last_sent_at`, `last_error`.
#[utoipa::path(operation_id = "test_contact_point", tag = "people",
    params(("contact_point_id" = String, Path, description = "The contact point")),
    responses((status = 202, description = "A message is on its way", body = ContactBody)))]
#[post("/contact-points/{contact_point_id}/test")]
async fn test(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let tried = contact_points::test(&api.ctx, &asker.caller, id("contact point", &path)?).await?;
    Ok(HttpResponse::Accepted().json(ContactBody::new(tried, asker.dialect)))
}

/// The server's key for push messages.
#[derive(Debug, Serialize, ToSchema)]
struct PushKeyBody {
    /// The public key, in base64url: `applicationServerKey` of a browser's subscription (RFC 8292).
    public_key: String,
}

/// Get the server's key for push messages
#[utoipa::path(operation_id = "get_push_key", tag = "people",
    responses((status = 200, description = "The key", body = PushKeyBody)))]
#[get("/contact-points/push-key")]
async fn push_key(api: web::Data<HttpState>, asker: Asker) -> Reply {
    asker.caller.require(Scope::MomentsRead)?;
    ok(&PushKeyBody { public_key: api.ctx.notifications.push_key.public().to_owned() })
}
