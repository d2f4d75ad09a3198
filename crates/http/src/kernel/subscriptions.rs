//! Routes of webhook subscriptions (RFC-0006) and of agents' endpoints (RFC-0016). The state of deliveries is in
//! `deliveries.rs`.

use actix_web::{HttpRequest, HttpResponse, delete, get, patch, post, web};
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::ids::{ChannelId, EndpointId, IntentId, PortfolioId};
use entente_domain::limits::{DURATION_SECONDS, PAGE};
use entente_domain::refusal::{Code, Refusal};
use entente_domain::webhooks::formats::BodyFormat;
use entente_domain::webhooks::signing::{Scheme, Secret};
use entente_domain::webhooks::sinks::Sink;
use entente_domain::webhooks::{DisabledReason, EndpointAsk, EndpointChange, EndpointKind};
use entente_kernel::webhooks::endpoints;
use entente_kernel::webhooks::endpoints::{EndpointFilter, EndpointView, ROTATION_OVERLAP_SECONDS};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::{Body, IdempotencyKey, Limit1000, OptionalBody, Query, id};
use crate::caller::Asker;
use crate::error::{ProblemBody, Reply};
use crate::routes::Routes;
use crate::wire::{GivenTime, WireTime};
use crate::{HttpState, created, listed, ok};

pub fn routes(config: &mut Routes<'_>) {
    config.service(subscribe).service(list).service(get).service(change).service(remove).service(rotate);
    config.service(of_agent);
}

/// A webhook endpoint; fields that RFC-0006 clients read in snake case or camel case appear in both (OI-15.33).
#[derive(Debug, Serialize, ToSchema)]
struct SubscriptionBody {
    /// Subscription id.
    id: EndpointId,
    /// Whether the endpoint was subscribed, or registered by an agent.
    kind: EndpointKind,
    /// The subscribing agent: only events visible to it are sent.
    #[schema(example = "agent.researcher")]
    subscriber_id: String,
    /// Same as `subscriber_id`.
    #[serde(rename = "subscriberId")]
    subscriber_id_camel: String,
    /// Only events of this intent.
    intent_id: Option<IntentId>,
    /// Same as `intent_id`.
    #[serde(rename = "intentId")]
    intent_id_camel: Option<IntentId>,
    /// Only events of this portfolio.
    portfolio_id: Option<PortfolioId>,
    /// Same as `portfolio_id`.
    #[serde(rename = "portfolioId")]
    portfolio_id_camel: Option<PortfolioId>,
    /// Only events of this channel.
    channel_id: Option<ChannelId>,
    /// For a mailbox subscription: the entity whose envelopes are sent instead of events.
    mailbox: Option<String>,
    /// Only events of these types, globs with `*`; empty for all.
    #[schema(example = json!(["channel_message", "task.*"]))]
    event_types: Vec<String>,
    /// Same as `event_types`.
    #[serde(rename = "eventTypes")]
    event_types_camel: Vec<String>,
    /// URL that receives the deliveries.
    #[schema(example = "https://hooks.example/entente")]
    webhook_url: Option<String>,
    /// Same as `webhook_url`.
    #[serde(rename = "webhookUrl")]
    webhook_url_camel: Option<String>,
    /// For a subscription without a URL: the operator's broker that the events are published to.
    #[schema(example = "events")]
    sink: Option<String>,
    /// Topic at that broker.
    #[schema(example = "events.{intent_id}.{type}")]
    topic: Option<String>,
    /// Whether the endpoint has neither expired nor been disabled.
    active: bool,
    /// Why the endpoint is disabled.
    disabled_reason: Option<DisabledReason>,
    /// When the endpoint was disabled.
    disabled_at: Option<WireTime>,
    /// When the subscription expires.
    expires_at: Option<WireTime>,
    /// Same as `expires_at`.
    #[serde(rename = "expiresAt")]
    expires_at_camel: Option<WireTime>,
    /// When the subscription was created.
    created_at: WireTime,
    /// Same as `created_at`.
    #[serde(rename = "createdAt")]
    created_at_camel: WireTime,
    /// Form of the bodies: `standard` or `cloudevents`.
    format: BodyFormat,
    /// Signature scheme of deliveries (Standard Webhooks).
    signature: Scheme,
    /// Public key that verifies `v1a` signatures.
    public_key: Option<String>,
    /// Secret that verifies signatures, shown only in the response that creates it; a `v1a` secret is never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    secret: Option<String>,
    /// Number of failures since the last successful delivery.
    failures: u32,
    /// Time of the first failure since the last successful delivery.
    failing_since: Option<WireTime>,
    /// Error of the last failure.
    last_error: Option<String>,
    /// When the last failure occurred.
    last_error_at: Option<WireTime>,
    /// When a delivery last succeeded.
    last_success_at: Option<WireTime>,
}

impl SubscriptionBody {
    fn new(shown: EndpointView, api: &HttpState, dialect: Dialect) -> Self {
        let EndpointView { endpoint, health, secret } = shown;
        let time = |at| WireTime::new(at, dialect);
        let secret = secret.filter(|secret| secret.scheme() == Scheme::V1);
        let (sink, topic) = endpoint.sink().map(|sink| (sink.name, sink.topic)).unzip();
        let url = endpoint.url.clone().filter(|_| sink.is_none());
        Self {
            active: endpoint.active(api.ctx.now()),
            id: endpoint.id,
            kind: endpoint.kind,
            mailbox: (endpoint.kind == EndpointKind::Mailbox).then(|| endpoint.agent_id.clone()),
            subscriber_id: endpoint.agent_id.clone(),
            subscriber_id_camel: endpoint.agent_id,
            intent_id: endpoint.intent_id,
            intent_id_camel: endpoint.intent_id,
            portfolio_id: endpoint.portfolio_id,
            portfolio_id_camel: endpoint.portfolio_id,
            channel_id: endpoint.channel_id,
            event_types: endpoint.event_types.clone(),
            event_types_camel: endpoint.event_types,
            webhook_url: url.clone(),
            webhook_url_camel: url,
            sink,
            topic,
            disabled_reason: endpoint.disabled.map(|(_, reason)| reason),
            disabled_at: endpoint.disabled.map(|(at, _)| time(at)),
            expires_at: endpoint.expires_at.map(time),
            expires_at_camel: endpoint.expires_at.map(time),
            created_at: time(endpoint.created_at),
            created_at_camel: time(endpoint.created_at),
            format: endpoint.format,
            signature: endpoint.signature,
            public_key: endpoint.public_key,
            secret: secret.map(|secret| secret.reveal()),
            failures: health.failures,
            failing_since: health.failing_since.map(time),
            last_error: health.last_error,
            last_error_at: health.last_error_at.map(time),
            last_success_at: health.last_success_at.map(time),
        }
    }
}

/// A subscription to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewSubscription)]
#[schema(example = json!({ "webhook_url": "https://hooks.example/entente", "event_types": ["channel_message"] }))]
struct SubscribeBody {
    /// URL that receives deliveries; if omitted, nothing is sent: follow a stream instead.
    #[serde(alias = "webhookUrl", alias = "url", alias = "callback_url")]
    webhook_url: Option<String>,
    /// Name of a broker that the operator has configured, to which the events are published as CloudEvents instead, each once and in
    /// the order of its intent; requires the scope `admin`.
    #[expect(clippy::doc_markdown, reason = "the text is the document's, and CloudEvents is a name")]
    #[schema(example = "events")]
    sink: Option<String>,
    /// Topic at the `sink` (a subject of NATS, a topic of Kafka), one that the operator allows; `{intent_id}` and
    /// `{type}` are those of each event. A topic of Kafka has no `{intent_id}`: that is the key of each record.
    #[schema(example = "events.{intent_id}.{type}")]
    topic: Option<String>,
    /// Only events of this intent; defaults to everything visible to the subscriber.
    #[serde(alias = "intentId")]
    intent_id: Option<String>,
    /// Only events of this channel.
    channel_id: Option<String>,
    /// Sends every envelope that arrives in this entity's mailbox, instead of events; the key must be able to act as the
    /// entity.
    #[schema(example = "agent.researcher")]
    mailbox: Option<String>,
    /// Only events on the intents of this portfolio, as intents are added and removed.
    #[serde(alias = "portfolioId")]
    portfolio_id: Option<String>,
    /// The subscribing agent: only events visible to it are sent; defaults to the acting agent.
    #[serde(alias = "subscriberId")]
    subscriber_id: Option<String>,
    /// Only events of these types, globs with `*`; defaults to all. `inbox.ring`, which must be named, sends each ring of the
    /// subscriber's open inbox: when an entry wakes, and again until it is seen, outside of quiet hours.
    #[serde(alias = "eventTypes")]
    event_types: Option<Vec<String>>,
    /// When the subscription expires.
    #[serde(alias = "expiresAt")]
    expires_at: Option<GivenTime>,
    /// Form of the bodies: `standard` (`type`, `timestamp` and `data`, as in Standard Webhooks) or `cloudevents` (CloudEvents 1.0,
    /// structured mode); defaults to `standard`, and to `cloudevents` for a sink.
    #[expect(clippy::doc_markdown, reason = "the text is the document's, and CloudEvents is a name")]
    format: Option<BodyFormat>,
    /// `v1` (HMAC-SHA256) or `v1a` (Ed25519); defaults to `v1`.
    signature: Option<Scheme>,
    /// Secret of the client's own; generated if omitted.
    secret: Option<String>,
}

/// Returns the subscribing agent, and whether the subscription is to that entity's mailbox.
fn subscriber(asker: &Asker, said: &SubscribeBody, strict: bool) -> Result<(String, bool), Refusal> {
    let Some(entity) = &said.mailbox else {
        let agent = asker.caller.speaker("subscriber_id", said.subscriber_id.as_deref(), strict)?;
        asker.caller.require(Scope::IntentsRead)?;
        return Ok((agent, false));
    };
    asker.caller.require(Scope::MailRead)?;
    if said.subscriber_id.as_ref().is_some_and(|agent| agent != entity) {
        let message =
            "A subscription to a mailbox sees as the entity whose it is. Leave out `subscriber_id`.";
        return Err(Refusal::field(Code::Unprocessable, "subscriber_id", "mailbox", message));
    }
    Ok((entity.clone(), true))
}

fn sink(name: Option<String>, topic: Option<String>) -> Result<Option<Sink>, Refusal> {
    match (name, topic) {
        (Some(name), Some(topic)) => Ok(Some(Sink { name, topic })),
        (None, None) => Ok(None),
        _ => {
            let message = "A `sink` needs a `topic`, and a `topic` a `sink`.";
            Err(Refusal::field(Code::Unprocessable, "topic", "missing", message))
        }
    }
}

/// Subscribe to webhooks
///
/// Events visible to the subscriber are sent to `webhook_url` as they happen, signed as Standard Webhooks specifies. The
/// secret is shown only in this response; repeating the request with the same `Idempotency-Key` does not show it again.
#[utoipa::path(tag = "webhooks", request_body = SubscribeBody, params(IdempotencyKey),
    responses((status = 201, description = "The subscription, with its secret", body = SubscriptionBody),
              (status = 422, description = "The server may not send to the URL, or the request is invalid", body = ProblemBody)))]
#[post("/subscriptions")]
async fn subscribe(
    request: HttpRequest,
    api: web::Data<HttpState>,
    asker: Asker,
    body: Body<SubscribeBody>,
) -> Reply {
    let once = body.once(&request)?;
    let said = body.value;
    let strict = api.ctx.settings.strict;
    let (agent, mailbox) = subscriber(&asker, &said, strict)?;
    let signature = said.signature.unwrap_or(Scheme::V1);
    let secret = said.secret.map(|text| Secret::given(&text, signature)).transpose()?;
    let intent = said.intent_id.map(|text| id::<IntentId>("intent", &text)).transpose()?;
    let channel = said.channel_id.map(|text| id::<ChannelId>("channel", &text)).transpose()?;
    let portfolio = said.portfolio_id.map(|text| id::<PortfolioId>("portfolio", &text)).transpose()?;
    let ask = EndpointAsk {
        mailbox,
        intent_id: intent,
        channel_id: channel,
        portfolio_id: portfolio,
        event_types: said.event_types.unwrap_or_default(),
        url: said.webhook_url.filter(|url| !url.is_empty()),
        sink: sink(said.sink, said.topic)?,
        format: said.format,
        signature,
        expires_at: said.expires_at.map(|end| end.0),
    };
    let made = endpoints::subscribe(&api.ctx, &asker.caller, &agent, ask, secret, once.as_ref()).await?;
    created(&SubscriptionBody::new(made, &api, asker.dialect))
}

/// List subscriptions
///
/// Returns the subscriptions of the caller's principal, oldest first.
#[utoipa::path(operation_id = "list_subscriptions", tag = "webhooks",
    params(("intent_id" = Option<String>, Query, description = "Only subscriptions to this intent"),
           ("portfolio_id" = Option<String>, Query, description = "Only subscriptions to this portfolio"),
           ("kind" = Option<EndpointKind>, Query, description = "Only this kind: `subscription`, `agent` (endpoints that agents registered with) or `mailbox`"),
           ("after" = Option<String>, Query, description = "Id of the last subscription of the previous page"), Limit1000),
    responses((status = 200, description = "The subscriptions", body = [SubscriptionBody])))]
#[get("/subscriptions")]
async fn list(api: web::Data<HttpState>, asker: Asker, query: Query) -> Reply {
    // A malformed portfolio id matches no portfolio, so the list is empty.
    let portfolio = query.text("portfolio_id").map(str::parse::<PortfolioId>);
    if let Some(Err(_)) = portfolio {
        return ok(&[(); 0]);
    }
    let filter = EndpointFilter {
        portfolio_id: portfolio.and_then(Result::ok),
        intent_id: query.parsed("intent_id", "an intent's id", |text| text.parse().ok())?,
        kind: query.parsed("kind", "`subscription`, `mailbox` or `agent`", EndpointKind::parse)?,
        after: query.parsed("after", "a subscription's id", |text| text.parse().ok())?,
        limit: query.limit(PAGE)?,
    };
    let found = endpoints::list(&api.ctx, &asker.caller, &filter).await?;
    let shown = found.into_iter().map(|one| SubscriptionBody::new(one, &api, asker.dialect));
    listed(shown)
}

/// Get a subscription
#[utoipa::path(operation_id = "get_subscription", tag = "webhooks",
    responses((status = 200, description = "The subscription", body = SubscriptionBody)))]
#[get("/subscriptions/{subscription_id}")]
async fn get(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = endpoints::get(&api.ctx, &asker.caller, id("subscription", &path)?).await?;
    ok(&SubscriptionBody::new(found, &api, asker.dialect))
}

/// A change of a subscription.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SubscriptionChange)]
#[schema(example = json!({ "active": true }))]
struct ChangeBody {
    /// New URL for deliveries.
    #[serde(alias = "webhookUrl", alias = "url")]
    webhook_url: Option<String>,
    /// New list of event types.
    #[serde(alias = "eventTypes")]
    event_types: Option<Vec<String>>,
    /// `false` stops deliveries; `true` resumes them, also after the endpoint was disabled because of failures.
    active: Option<bool>,
    /// When the subscription expires.
    #[serde(alias = "expiresAt")]
    expires_at: Option<GivenTime>,
}

/// Change a subscription
///
/// Omitted fields stay unchanged. From then on, the visibility of the key that made the change applies.
#[utoipa::path(operation_id = "change_subscription", tag = "webhooks", request_body = ChangeBody,
    responses((status = 200, description = "The subscription", body = SubscriptionBody)))]
#[patch("/subscriptions/{subscription_id}")]
async fn change(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: Body<ChangeBody>,
) -> Reply {
    let said = body.value;
    let ask = EndpointChange {
        url: said.webhook_url,
        event_types: said.event_types,
        active: said.active,
        expires_at: said.expires_at.map(|end| end.0),
    };
    let changed = endpoints::change(&api.ctx, &asker.caller, id("subscription", &path)?, ask).await?;
    ok(&SubscriptionBody::new(changed, &api, asker.dialect))
}

/// Delete a subscription
///
/// Nothing more is sent, including queued deliveries.
#[utoipa::path(operation_id = "delete_subscription", tag = "webhooks",
    responses((status = 204, description = "Deleted")))]
#[delete("/subscriptions/{subscription_id}")]
async fn remove(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    endpoints::remove(&api.ctx, &asker.caller, id("subscription", &path)?).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Options of a secret rotation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = RotateSecret)]
#[schema(example = json!({ "overlap_seconds": 86400 }))]
struct RotateBody {
    /// Seconds during which the old secret also signs; defaults to one day.
    overlap_seconds: Option<u32>,
}

/// Rotate a subscription's secret
///
/// Both secrets sign during the overlap, so that the receiver can be updated without a gap. The new secret is shown only in
/// this response.
#[utoipa::path(operation_id = "rotate_subscription_secret", tag = "webhooks", request_body = Option<RotateBody>,
    responses((status = 200, description = "The subscription, with its new secret", body = SubscriptionBody)))]
#[post("/subscriptions/{subscription_id}/rotate")]
async fn rotate(
    api: web::Data<HttpState>,
    asker: Asker,
    path: web::Path<String>,
    body: OptionalBody<RotateBody>,
) -> Reply {
    let overlap = body.0.value.overlap_seconds.unwrap_or(ROTATION_OVERLAP_SECONDS);
    if overlap > DURATION_SECONDS {
        let message = "`overlap_seconds` is more than ten years.";
        return Err(Refusal::field(Code::InvalidRequest, "overlap_seconds", "too_long", message).into());
    }
    let rotated = endpoints::rotate(&api.ctx, &asker.caller, id("subscription", &path)?, overlap).await?;
    ok(&SubscriptionBody::new(rotated, &api, asker.dialect))
}

/// Get an agent's webhook
///
/// An agent that registers with an http or https `endpoint` receives the events that concern it there (RFC-0021 §2.4.3). The
/// secret is shown to callers that may act as the agent.
#[utoipa::path(operation_id = "get_agent_endpoint", tag = "webhooks",
    responses((status = 200, description = "The webhook, with its secret", body = SubscriptionBody)))]
#[get("/agents/{agent_id}/endpoint")]
async fn of_agent(api: web::Data<HttpState>, asker: Asker, path: web::Path<String>) -> Reply {
    let found = endpoints::of_agent(&api.ctx, &asker.caller, &path).await?;
    ok(&SubscriptionBody::new(found, &api, asker.dialect))
}
