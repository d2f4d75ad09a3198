//! Resources: intents and channels by URI, read through the operations and permissions of REST. Hosts that speak
//! 2026-07-28 follow them with `subscriptions/listen` (`subscriptions.rs`).

pub(super) mod subscriptions;

use entente_bridges::Ctx;
use entente_domain::identity::keys::{Dialect, Scope};
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::intents::Intent;
use entente_domain::refusal::{Code, Refusal};
use entente_http::error::Problem;
use entente_http::message::MessageBody;
use entente_kernel::feed::streams::Subject;
use entente_kernel::intents::IntentFilter;
use entente_kernel::messages::MessageFilter;
use entente_kernel::{AppError, Caller};
use entente_openintent::{channels, intents, messages};
use entente_openintent_api::channels::ChannelBody;
use serde_json::{Value, json};

use super::intents::whole_intent;

/// Prefixes of the URIs, before the id.
const INTENTS: &str = "entente://intents/";
const CHANNELS: &str = "entente://channels/";

/// Media type of every resource.
const JSON: &str = "application/json";

/// Maximum number of resources of one page.
const STEP: usize = 100;
/// Maximum number of intents of one page, each of which costs a query for its channels.
const INTENTS_STEP: u32 = 10;
/// Number of a channel's newest messages in its resource.
const MESSAGES: u32 = 20;

/// Returns the intent or channel that a URI names; `None` for any other URI.
fn subject(uri: &str) -> Option<Subject> {
    if let Some(id) = uri.strip_prefix(INTENTS) {
        return id.parse::<IntentId>().ok().map(Subject::Intent);
    }
    uri.strip_prefix(CHANNELS)?.parse::<ChannelId>().ok().map(Subject::Channel)
}

/// Returns the templates of the URIs.
pub(super) fn templates() -> Value {
    json!([
        {
            "uriTemplate": "entente://intents/{id}", "name": "intent", "title": "Intent", "mimeType": JSON,
            "description": "An intent with its state, `intent_…`. list_intents shows the ids.",
        },
        {
            "uriTemplate": "entente://channels/{id}", "name": "channel", "title": "Channel", "mimeType": JSON,
            "description": "A channel with its newest messages, `chan_…`. list_channels shows the ids.",
        },
    ])
}

/// Position in the list of resources: intents newest first, each followed by its channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position {
    /// The last intent that was listed with all its channels.
    before: Option<IntentId>,
    /// Number of resources of the next intent that were listed: the intent itself, then channels.
    listed: u32,
}

impl Position {
    fn show(self) -> String {
        let before = self.before.map_or_else(|| "-".to_owned(), |id| id.to_string());
        format!("{before}:{}", self.listed)
    }

    fn parse(text: &str) -> Option<Self> {
        let (before, listed) = text.split_once(':')?;
        let before = match before {
            "-" => None,
            id => Some(id.parse().ok()?),
        };
        Some(Self { before, listed: listed.parse().ok()? })
    }
}

/// Returns a page of the resources that the caller may read, and the cursor of the next one.
///
/// # Errors
/// The cursor is none of this list's; the key lacks the scope `intents:read`.
pub(super) async fn list(
    ctx: &Ctx,
    caller: &Caller,
    cursor: Option<&str>,
) -> Result<(Vec<Value>, Option<String>), Problem> {
    let mut at = cursor.map_or_else(
        || Ok(Position::default()),
        |text| {
            let message = "`cursor` is none of this list's. Begin without one.";
            Position::parse(text)
                .ok_or_else(|| Refusal::field(Code::InvalidRequest, "cursor", "value", message))
        },
    )?;
    let filter = IntentFilter { before: at.before, limit: INTENTS_STEP, ..IntentFilter::default() };
    let found = intents::list(&ctx.openintent, caller, &filter).await?;
    let more = found.cut || found.items.len() >= INTENTS_STEP as usize;
    let mut resources = Vec::new();
    for intent in &found.items {
        if resources.len() >= STEP {
            return Ok((resources, Some(at.show())));
        }
        if at.listed == 0 {
            resources.push(of_intent(intent));
            at.listed = 1;
        }
        let room = u32::try_from(STEP.saturating_sub(resources.len())).unwrap_or(0);
        if caller.has(Scope::ChannelsRead) && room > 0 {
            let filter = channels::ChannelFilter { status: None, limit: room, offset: at.listed - 1 };
            let open = channels::list(&ctx.openintent, caller, intent.id, &filter).await?;
            let count = u32::try_from(open.len()).unwrap_or(room);
            resources.extend(open.iter().map(|channel| of_channel(channel, intent)));
            if count >= room {
                at.listed += count;
                return Ok((resources, Some(at.show())));
            }
        }
        at = Position { before: Some(intent.id), listed: 0 };
    }
    Ok((resources, more.then(|| at.show())))
}

fn of_intent(intent: &Intent) -> Value {
    json!({
        "uri": format!("{INTENTS}{}", intent.id), "name": intent.id, "title": intent.title, "mimeType": JSON,
        "description": format!("Intent, {}.", intent.status.as_str()),
    })
}

fn of_channel(channel: &Channel, intent: &Intent) -> Value {
    json!({
        "uri": format!("{CHANNELS}{}", channel.id), "name": channel.id, "title": channel.name, "mimeType": JSON,
        "description": format!("Channel of the intent `{}`, with its newest messages.", intent.title),
    })
}

/// Returns the contents of a resource.
///
/// # Errors
/// [`Code::NotFound`] if the URI names nothing that the caller may read; the key lacks a scope.
pub(super) async fn read(ctx: &Ctx, caller: &Caller, uri: &str) -> Result<Value, Problem> {
    let body = match subject(uri) {
        Some(Subject::Intent(id)) => whole_intent(&intents::get(&ctx.openintent, caller, id).await?),
        Some(Subject::Channel(id)) => channel(ctx, caller, id).await?,
        _ => return Err(Refusal::not_found("resource").into()),
    };
    Ok(json!([{ "uri": uri, "mimeType": JSON, "text": body.to_string() }]))
}

/// Returns a channel with its newest messages; without them for a reader of its intent that is not a member.
async fn channel(ctx: &Ctx, caller: &Caller, id: ChannelId) -> Result<Value, Problem> {
    let strict = ctx.settings.strict;
    let found =
        ChannelBody::new(channels::get(&ctx.openintent, caller, id).await?, strict, Dialect::Standard);
    let mut body = serde_json::to_value(found).map_err(|e| Problem::internal(&e.to_string()))?;
    let filter = MessageFilter { since: None, to: None, limit: MESSAGES };
    match messages::list(&ctx.openintent, caller, id, &filter).await {
        Ok(page) => {
            let newest: Vec<MessageBody<'_>> = page
                .messages
                .iter()
                .map(|message| MessageBody::new(message, strict, Dialect::Standard))
                .collect();
            body["messages"] = serde_json::to_value(newest).map_err(|e| Problem::internal(&e.to_string()))?;
        }
        Err(AppError::Refused(_)) => {}
        Err(failure) => return Err(failure.into()),
    }
    Ok(body)
}
