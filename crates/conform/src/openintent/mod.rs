//! Checks of OpenIntent: channels and messages (RFC-0021), and their foundations.

mod access;
mod channels;
mod coordination;
mod lifecycle;
mod messages;
mod types;

use serde_json::{Value, json};

use crate::check::Check;
use crate::finding::{Finding, skipped, text};
use crate::site::{Answer, Request, Site, Who};

/// All checks.
pub(crate) const CHECKS: &[&[Check]] = &[
    channels::CHECKS,
    types::CHECKS,
    messages::CHECKS,
    access::CHECKS,
    lifecycle::CHECKS,
    coordination::CHECKS,
];

/// Returns a path of the API. The RFC's tables begin with `/v1`, its examples with `/api/v1`, as servers do; a URL that
/// has a path of its own is taken as it is.
fn at(site: &Site, path: &str) -> String {
    let has_path = site.base.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path { path.to_owned() } else { format!("/api/v1{path}") }
}

/// Creates an intent of the first agent, and returns it. The checks need one; without it nothing can be said.
async fn intent(site: &Site) -> Result<Value, Finding> {
    let body = json!({
        "title": site.fresh("conform"), "description": "made by a conformance check", "constraints": {}, "state": {},
        "created_by": site.first_id(),
    });
    let made = site.post(&at(site, "/intents"), &body).send().await?;
    if made.status == 401 || made.status == 403 {
        return Err(skipped(format!("the key may not create an intent: {}", made.said())));
    }
    made.ok()
}

/// Returns the id of a new intent.
async fn intent_id(site: &Site) -> Result<String, Finding> {
    text(&intent(site).await?, "/id")
}

/// Begins the creation of a channel.
fn creating<'a>(site: &'a Site, intent: &str, body: &Value) -> Request<'a> {
    site.post(&at(site, &format!("/intents/{intent}/channels")), body)
}

/// Creates a channel with these members besides its name.
async fn channel_of(site: &Site, intent: &str, mut body: Value) -> Result<String, Finding> {
    if body.get("name").is_none() {
        body["name"] = json!(site.fresh("channel"));
    }
    text(&creating(site, intent, &body).send().await?.ok()?, "/id")
}

/// Creates a channel that every agent with access to its intent may use.
async fn channel(site: &Site) -> Result<String, Finding> {
    let intent = intent_id(site).await?;
    channel_of(site, &intent, json!({ "member_policy": "intent" })).await
}

/// Returns a channel as it is now.
async fn read_channel(site: &Site, id: &str) -> Result<Value, Finding> {
    site.get(&at(site, &format!("/channels/{id}"))).send().await?.ok()
}

/// Begins to send a message of somebody, with these members besides the sender.
fn sending<'a>(site: &'a Site, channel: &str, who: Who, mut body: Value) -> Request<'a> {
    let sender = site.agent(who).map_or(site.first_id(), |agent| &agent.id);
    body["sender"] = json!(sender);
    if body.get("payload").is_none() {
        body["payload"] = json!({ "n": 1 });
    }
    site.post(&at(site, &format!("/channels/{channel}/messages")), &body).by(who)
}

/// Sends a message, and returns it.
async fn send(site: &Site, channel: &str, who: Who, body: Value) -> Result<Value, Finding> {
    sending(site, channel, who, body).send().await?.ok()
}

/// Sends a notification of the first agent to all, and returns its id.
async fn notify(site: &Site, channel: &str, n: i64) -> Result<String, Finding> {
    let body = json!({ "message_type": "notify", "payload": { "n": n } });
    text(&send(site, channel, Who::First, body).await?, "/id")
}

/// Returns a channel that takes a message of the first agent, so that a message that it refuses is refused for itself.
async fn open_channel(site: &Site) -> Result<String, Finding> {
    let channel = channel(site).await?;
    sending(site, &channel, Who::First, json!({ "message_type": "notify" })).send().await?.twin()?;
    Ok(channel)
}

/// Lists a channel's messages as somebody.
async fn listed(site: &Site, channel: &str, query: &str, who: Who) -> Result<Answer, Finding> {
    site.get(&at(site, &format!("/channels/{channel}/messages{query}"))).by(who).send().await
}

/// The role that agents take for messages to a role.
const ROLE: &str = "conform";

/// Registers an agent with the role (RFC-0016). A server that refuses to register an agent twice may know it already.
async fn hold_role(site: &Site, who: Who) -> Result<String, Finding> {
    let id = match who {
        Who::Second => site.second_id()?,
        _ => site.first_id(),
    };
    let record = json!({ "agent_id": id, "role_id": ROLE, "capabilities": [] });
    let registered = site.post(&at(site, "/agents/register"), &record).by(who).send().await?;
    if !(200..300).contains(&registered.status) {
        let known = site.get(&at(site, &format!("/agents/{id}/record"))).by(who).send().await?;
        if known.body["role_id"] != json!(ROLE) {
            return Err(skipped(format!("{id} cannot register with a role: {}", registered.said())));
        }
    }
    Ok(id.to_owned())
}

/// Returns the ids of a list.
fn ids(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect()
}

/// Begins to answer a message.
fn replying<'a>(site: &'a Site, channel: &str, message: &str, who: Who) -> Request<'a> {
    let sender = site.agent(who).map_or(site.first_id(), |agent| &agent.id);
    let body = json!({ "sender": sender, "payload": { "answer": "v2.3" } });
    site.post(&at(site, &format!("/channels/{channel}/messages/{message}/reply")), &body).by(who)
}
