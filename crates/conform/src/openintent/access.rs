//! Addressing and access: who may speak, who may read, who may change (RFC-0021 §4 and §5).

use serde_json::{Value, json};

use super::{
    ROLE, at, channel, channel_of, hold_role, ids, intent_id, listed, notify, read_channel, replying, send,
    sending,
};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, skipped, text};
use crate::site::{Site, Who};

checks! {
    "RFC-0021 §4.1", Must, target_is_a_member, "A message to an agent that is no member of an explicit channel is 403.";
    "RFC-0021 §4.1", Must, directed_is_for_its_target, "A directed message is delivered to its target, and to nobody else.";
    "RFC-0021 §4.2", Must, role_is_resolved, "A message to a role is delivered to the agents that hold it.";
    "RFC-0021 §4.3", Must, broadcast_reaches_all, "A broadcast is delivered to everybody on the channel.";
    "RFC-0021 §5.1", Must, key_is_needed, "Without a key nobody reads or writes.";
    "RFC-0021 §5.1", Must, no_access_no_channels, "Who has no access to the intent cannot see its channels.";
    "RFC-0021 §5.1", Must, no_access_no_messages, "Who has no access to the intent cannot send to its channels.";
    "RFC-0021 §5.2", Must, outsider_cannot_send, "Only members send to an explicit channel.";
    "RFC-0021 §5.2", Must, outsider_cannot_read, "Only members read an explicit channel.";
    "RFC-0021 §5.2", Must, anyone_with_access_takes_part, "Everybody with access to the intent takes part in a channel of the policy `intent`.";
    "RFC-0021 §5.3", Must, creator_adds_a_member, "The creator adds a member, who then takes part.";
    "RFC-0021 §5.3", Must, others_change_nothing, "Nobody else changes a channel's members.";
    "RFC-0021 §5.4", Must, no_answer_across_channels, "A message is not answered on a channel of another intent.";
    "RFC-0021 §2.2 sender", Must, sender_is_oneself, "Nobody sends in the name of another agent.";
    "RFC-0021 §2.2 read_at", Should, only_the_target_reads, "Only the target acknowledges a message.";
}

/// An agent that is neither of the two.
const STRANGER: &str = "agent.conform-other";

/// Sends a notification to an agent, and returns its id.
async fn directed(site: &Site, channel: &str, to: &str) -> Result<String, Finding> {
    let body = json!({ "message_type": "notify", "to": to });
    text(&send(site, channel, Who::First, body).await?, "/id")
}

/// Creates a channel with the first agent as its only member, on an intent that the second agent has access to.
async fn explicit(site: &Site) -> Result<String, Finding> {
    site.second_id()?;
    let intent = intent_id(site).await?;
    channel_of(site, &intent, json!({ "member_policy": "explicit", "members": [site.first_id()] })).await
}

/// Creates a channel on an intent that only the first agent has access to (RFC-0011).
async fn closed(site: &Site) -> Result<String, Finding> {
    site.second_id()?;
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({})).await?;
    let acl = json!({ "default_policy": "closed", "entries": [] });
    let path = at(site, &format!("/intents/{intent}/acl"));
    let set = site.request(reqwest::Method::PUT, &path).json(&acl).send().await?;
    if set.status == 404 || set.status == 405 {
        return Err(skipped("the server has no access lists (RFC-0011)"));
    }
    set.ok()?;
    Ok(channel)
}

/// Fails unless a channel takes messages of the first agent, and none of the second one.
async fn second_cannot_send(site: &Site, channel: &str) -> Outcome {
    let sending = |who: Who| sending(site, channel, who, json!({ "message_type": "notify" }));
    sending(Who::First).send().await?.twin()?;
    sending(Who::Second).send().await?.is(&[403, 404]).map(drop)
}

async fn target_is_a_member(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let body = json!({ "member_policy": "explicit", "members": [site.first_id()] });
    let channel = channel_of(site, &intent, body).await?;
    let body = json!({ "message_type": "notify", "to": STRANGER });
    sending(site, &channel, Who::First, body).send().await?.is(&[403]).map(drop)
}

async fn directed_is_for_its_target(site: &Site) -> Outcome {
    let target = site.second_id()?;
    let channel = channel(site).await?;
    let mine = directed(site, &channel, target).await?;
    let other = directed(site, &channel, STRANGER).await?;
    let found = listed(site, &channel, "", Who::Second).await?.ok()?;
    let found = ids(&found);
    let right = found.contains(&mine.as_str()) && !found.contains(&other.as_str());
    ensure(right, format!("{mine} in the second agent's list, and not {other}"), found.join(", "))
}

async fn role_is_resolved(site: &Site) -> Outcome {
    let target = hold_role(site, Who::Second).await?;
    let channel = channel(site).await?;
    let body = json!({ "message_type": "notify", "to": format!("role:{ROLE}") });
    let id = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    let found = listed(site, &channel, &format!("?to={target}"), Who::Second).await?.ok()?;
    ensure(ids(&found).contains(&id.as_str()), format!("{id} in what is for the holder of the role"), found)
}

async fn broadcast_reaches_all(site: &Site) -> Outcome {
    site.second_id()?;
    let channel = channel(site).await?;
    let id = text(&send(site, &channel, Who::First, json!({ "message_type": "broadcast" })).await?, "/id")?;
    let found = listed(site, &channel, "", Who::Second).await?.ok()?;
    ensure(ids(&found).contains(&id.as_str()), format!("{id} in the second agent's list"), found)
}

async fn key_is_needed(site: &Site) -> Outcome {
    site.needs_key()?;
    let channel = channel(site).await?;
    listed(site, &channel, "", Who::Nobody).await?.is(&[401, 403])?;
    let body = json!({ "message_type": "notify" });
    sending(site, &channel, Who::Nobody, body).send().await?.is(&[401, 403]).map(drop)
}

async fn no_access_no_channels(site: &Site) -> Outcome {
    let channel = closed(site).await?;
    let reading = |who: Who| site.get(&at(site, &format!("/channels/{channel}"))).by(who);
    reading(Who::First).send().await?.twin()?;
    reading(Who::Second).send().await?.is(&[403, 404])?;
    listed(site, &channel, "", Who::First).await?.twin()?;
    listed(site, &channel, "", Who::Second).await?.is(&[403, 404]).map(drop)
}

async fn no_access_no_messages(site: &Site) -> Outcome {
    let channel = closed(site).await?;
    second_cannot_send(site, &channel).await
}

async fn outsider_cannot_send(site: &Site) -> Outcome {
    let channel = explicit(site).await?;
    second_cannot_send(site, &channel).await
}

async fn outsider_cannot_read(site: &Site) -> Outcome {
    let channel = explicit(site).await?;
    let id = notify(site, &channel, 1).await?;
    let reading = |who: Who| site.get(&at(site, &format!("/channels/{channel}/messages/{id}"))).by(who);
    reading(Who::First).send().await?.twin()?;
    reading(Who::Second).send().await?.is(&[403, 404])?;
    let mine = listed(site, &channel, "", Who::First).await?.twin()?;
    ensure(ids(&mine).contains(&id.as_str()), format!("{id} in the member's list"), mine)?;
    let all = listed(site, &channel, "", Who::Second).await?;
    let is_hidden = matches!(all.status, 403 | 404) || all.body == Value::Array(Vec::new());
    if is_hidden { Ok(()) } else { Err(failed("403, 404, or an empty list", all.said())) }
}

async fn anyone_with_access_takes_part(site: &Site) -> Outcome {
    site.second_id()?;
    let channel = channel(site).await?;
    let id = text(&send(site, &channel, Who::Second, json!({ "message_type": "notify" })).await?, "/id")?;
    let found = listed(site, &channel, "", Who::First).await?.ok()?;
    ensure(ids(&found).contains(&id.as_str()), format!("{id} in the first agent's list"), found)
}

async fn creator_adds_a_member(site: &Site) -> Outcome {
    let second = site.second_id()?;
    let channel = explicit(site).await?;
    let members = json!({ "members": [site.first_id(), second] });
    site.patch(&at(site, &format!("/channels/{channel}")), &members).send().await?.ok()?;
    let read = read_channel(site, &channel).await?;
    ensure(list(&read["members"])?.contains(&json!(second)), format!("{second} among the members"), &read)?;
    send(site, &channel, Who::Second, json!({ "message_type": "notify" })).await.map(drop)
}

async fn others_change_nothing(site: &Site) -> Outcome {
    let second = site.second_id()?;
    let channel = explicit(site).await?;
    let path = at(site, &format!("/channels/{channel}"));
    let patching = |members: Value, who: Who| site.patch(&path, &json!({ "members": members })).by(who);
    patching(json!([second]), Who::Second).send().await?.is(&[403, 404])?;
    // Afterwards: the second agent is no stranger then.
    patching(json!([site.first_id(), second]), Who::First).send().await?.twin().map(drop)
}

async fn no_answer_across_channels(site: &Site) -> Outcome {
    let (one, other) = (channel(site).await?, channel(site).await?);
    let body = json!({ "message_type": "request", "to": site.first_id() });
    let asked = text(&send(site, &one, Who::First, body).await?, "/id")?;
    replying(site, &other, &asked, Who::First).send().await?.refused_or(&[404])?;
    // Afterwards: a request that has an answer might be refused for that.
    replying(site, &one, &asked, Who::First).send().await?.twin().map(drop)
}

async fn sender_is_oneself(site: &Site) -> Outcome {
    let second = site.second_id()?;
    let channel = channel(site).await?;
    let path = at(site, &format!("/channels/{channel}/messages"));
    let as_one = |sender: &str| {
        let body = json!({ "sender": sender, "message_type": "notify", "payload": { "n": 1 } });
        site.post(&path, &body).by(Who::Second)
    };
    as_one(second).send().await?.twin()?;
    as_one(site.first_id()).send().await?.refused()
}

async fn only_the_target_reads(site: &Site) -> Outcome {
    let second = site.second_id()?;
    let channel = channel(site).await?;
    let (own, other) = (directed(site, &channel, second).await?, directed(site, &channel, STRANGER).await?);
    let reading = |id: &str| {
        let path = at(site, &format!("/channels/{channel}/messages/{id}"));
        site.patch(&path, &json!({ "status": "read" })).by(Who::Second)
    };
    reading(&own).send().await?.twin()?;
    // It is not for the second agent, which may not even see it.
    reading(&other).send().await?.refused_or(&[404])
}
