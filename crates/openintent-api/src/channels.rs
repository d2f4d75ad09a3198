//! Endpoints for channels (RFC-0021 §1).

use actix_web::{HttpRequest, delete, get, patch, post, web};
use entente_domain::identity::keys::Dialect;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::limits::PAGE;
use entente_domain::openintent::channels::{Channel, ChannelAsk, ChannelChange, ChannelStatus, MemberPolicy};
use entente_http::body::{Body, IdempotencyKey, Limit1000, Query, id};
use entente_http::caller::Asker;
use entente_http::error::Reply;
use entente_http::routes::Routes;
use entente_http::wire::WireTime;
use entente_http::{created, listed, ok};
use entente_openintent::channels;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::ApiState;

pub(crate) fn routes(config: &mut Routes<'_>) {
    config.service(create).service(list).service(get).service(change).service(delete);
}

/// A channel.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChannelBody {
    /// The channel's id.
    id: ChannelId,
    /// The intent it is attached to.
    intent_id: IntentId,
    /// The task it is scoped to.
    task_id: Option<String>,
    /// Its name, unique among the intent's open channels.
    #[schema(example = "data-clarification")]
    name: String,
    /// The agent that opened it.
    created_by: String,
    /// The listed members.
    members: Vec<String>,
    /// Whether only listed members may take part.
    member_policy: MemberPolicy,
    /// The options as given; in strict mode, with defaults filled in.
    #[schema(value_type = Option<Object>, example = json!({ "audit": true, "ttl_seconds": 3600, "max_messages": 1000 }))]
    options: Option<Map<String, Value>>,
    /// Whether the channel accepts messages.
    status: ChannelStatus,
    /// When it was opened.
    created_at: WireTime,
    /// When it was closed.
    closed_at: Option<WireTime>,
    /// Number of messages ever sent.
    message_count: i64,
    /// When the last message was sent.
    last_message_at: Option<WireTime>,
}

impl ChannelBody {
    /// Returns the channel in the client's dialect.
    #[must_use]
    pub fn new(channel: Channel, strict: bool, dialect: Dialect) -> Self {
        let time = |at| WireTime::new(at, dialect);
        Self {
            id: channel.id,
            intent_id: channel.intent_id,
            task_id: channel.task_id,
            name: channel.name,
            created_by: channel.created_by,
            members: channel.members,
            member_policy: channel.member_policy,
            options: if strict { Some(channel.options.filled()) } else { channel.given_options },
            status: channel.status,
            created_at: time(channel.created_at),
            closed_at: channel.closed_at.map(time),
            message_count: channel.message_count,
            last_message_at: channel.last_message_at.map(time),
        }
    }
}

fn body_of(channel: Channel, api: &ApiState, asker: &Asker) -> ChannelBody {
    ChannelBody::new(channel, api.ctx.settings.strict, asker.dialect)
}

/// A channel to open.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewChannel)]
#[schema(example = json!({
    "name": "data-clarification", "members": ["agent.researcher", "agent.data"], "member_policy": "explicit",
    "options": { "audit": true, "ttl_seconds": 3600 }
}))]
struct CreateBody {
    /// The channel's name.
    name: String,
    /// The members to list.
    #[serde(default)]
    members: Vec<String>,
    /// Whether only listed members may take part; defaults to `intent`, which lets every agent with access to the
    /// intent in.
    member_policy: Option<MemberPolicy>,
    /// The task to scope it to.
    task_id: Option<String>,
    /// `audit`, `ttl_seconds`, `max_messages`.
    #[schema(value_type = Option<Object>)]
    options: Option<Map<String, Value>>,
}

/// Open a channel on an intent
#[utoipa::path(operation_id = "create_channel", tag = "channels", request_body = CreateBody, params(IdempotencyKey),
    responses((status = 201, description = "The channel", body = ChannelBody),
              (status = 409, description = "`duplicate_name` or `intent_resolved`", body = entente_http::error::ProblemBody)))]
#[post("/intents/{intent_id}/channels")]
async fn create(
    request: HttpRequest,
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<CreateBody>,
) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let once = body.once(&request)?;
    let said = body.value;
    let ask = ChannelAsk {
        name: said.name,
        members: said.members,
        member_policy: said.member_policy,
        task_id: said.task_id,
        options: said.options,
    };
    let channel = channels::create(&api.ctx, &asker.caller, intent_id, ask, once.as_ref()).await?;
    created(&body_of(channel, &api, &asker))
}

/// List an intent's channels
///
/// Open channels come first. All readers of the intent see names and members; only members can read messages.
#[utoipa::path(operation_id = "list_channels", tag = "channels",
    params(("status" = Option<ChannelStatus>, Query, description = "Only channels in this status"), Limit1000,
           ("offset" = Option<u32>, Query, description = "Number of channels to skip; defaults to 0")),
    responses((status = 200, description = "The channels", body = [ChannelBody])))]
#[get("/intents/{intent_id}/channels")]
async fn list(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>, query: Query) -> Reply {
    let intent_id: IntentId = id("intent", &path)?;
    let status = |text: &str| match text {
        "open" => Some(ChannelStatus::Open),
        "closed" => Some(ChannelStatus::Closed),
        _ => None,
    };
    let filter = channels::ChannelFilter {
        status: query.parsed("status", "`open` or `closed`", status)?,
        limit: query.limit(PAGE)?,
        offset: query.offset()?,
    };
    let found = channels::list(&api.ctx, &asker.caller, intent_id, &filter).await?;
    listed(found.into_iter().map(|channel| body_of(channel, &api, &asker)))
}

/// Get a channel
#[utoipa::path(operation_id = "get_channel",
    tag = "channels",
    responses((status = 200, description = "The channel", body = ChannelBody)))]
#[get("/channels/{channel_id}")]
async fn get(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let channel = channels::get(&api.ctx, &asker.caller, id("channel", &path)?).await?;
    ok(&body_of(channel, &api, &asker))
}

/// A change to a channel; omitted members stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({ "members": ["agent.researcher", "agent.data", "agent.auditor"] }))]
struct ChangeBody {
    /// The complete new list of members.
    members: Option<Vec<String>>,
    /// Whether only listed members may take part.
    member_policy: Option<MemberPolicy>,
    /// The complete new options.
    #[schema(value_type = Option<Object>)]
    options: Option<Map<String, Value>>,
    /// `closed` closes the channel permanently.
    status: Option<ChannelStatus>,
}

/// Change a channel
///
/// Allowed to the channel's creator and to coordinators and admins of the intent.
#[utoipa::path(operation_id = "change_channel",
    tag = "channels", request_body = ChangeBody,
    responses((status = 200, description = "The channel", body = ChannelBody),
              (status = 409, description = "`channel_closed`", body = entente_http::error::ProblemBody)))]
#[patch("/channels/{channel_id}")]
async fn change(
    api: web::Data<ApiState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let id: ChannelId = id("channel", &path)?;
    let said = body.value;
    let change = ChannelChange {
        members: said.members,
        member_policy: said.member_policy,
        options: said.options,
        status: said.status,
    };
    let channel = channels::change(&api.ctx, &asker.caller, id, change).await?;
    ok(&body_of(channel, &api, &asker))
}

/// The confirmation that a channel was deleted.
#[derive(Debug, Serialize, ToSchema)]
struct DeletedBody {
    /// Always `closed`.
    #[schema(example = "closed")]
    status: &'static str,
    /// The channel.
    channel_id: ChannelId,
}

/// Close and delete a channel
///
/// Allowed to the same callers as changing it. It can no longer be found; audited messages stay in the intent's log.
#[utoipa::path(operation_id = "delete_channel",
    tag = "channels",
    responses((status = 200, description = "The channel was deleted", body = DeletedBody)))]
#[delete("/channels/{channel_id}")]
async fn delete(api: web::Data<ApiState>, asker: Asker, path: web::Path<String>) -> Reply {
    let channel_id: ChannelId = id("channel", &path)?;
    channels::delete(&api.ctx, &asker.caller, channel_id).await?;
    ok(&DeletedBody { status: "closed", channel_id })
}
