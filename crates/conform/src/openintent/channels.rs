//! Channels: the object, its members, and the operations on it (RFC-0021 §1 and "Endpoints").

use serde_json::json;

use super::{at, channel, channel_of, creating, ids, intent_id, listed, notify, read_channel};
use crate::check::checks;
use crate::finding::{Outcome, ensure, list, members, same, text};
use crate::site::{Site, Who};

checks! {
    "RFC-0021 §1.1", Must, channel_object, "A channel is created with 201 and has the members of the channel object.";
    "RFC-0021 §1.2 id", Must, channel_ids_differ, "A channel has an id of its own.";
    "RFC-0021 §1.2 intent_id", Must, channel_needs_an_intent, "A channel belongs to an intent: without one it is not created.";
    "RFC-0021 §1.2 name", Must, channel_needs_a_name, "A channel needs a name.";
    "RFC-0021 §1.2 name", Must, channel_name_is_unique, "A channel's name is unique within its intent.";
    "RFC-0021 §1.2 created_by", Must, channel_has_its_creator, "`created_by` is the agent that created the channel.";
    "RFC-0021 §1.2 members", Must, channel_keeps_its_members, "`members` are the agents that the creator named.";
    "RFC-0021 §1.2 member_policy", Must, channel_policy_is_intent, "`member_policy` is `intent` unless the creator said otherwise.";
    "RFC-0021 §1.2 member_policy", Must, channel_policy_is_an_enum, "`member_policy` is `explicit` or `intent`, and nothing else.";
    "RFC-0021 §1.2 options", Should, channel_options_have_defaults, "`options.max_messages` is 1000 unless the creator said otherwise.";
    "RFC-0021 §1.2 options.max_messages", Must, channel_evicts_the_oldest, "The oldest messages are evicted beyond `max_messages`.";
    "RFC-0021 §1.2 message_count", Must, channel_counts_messages, "`message_count` and `last_message_at` follow the messages that are sent.";
    "RFC-0021 Endpoints", Must, channels_are_listed, "`GET /intents/{id}/channels` lists the intent's channels.";
    "RFC-0021 Endpoints", Must, unknown_channel_is_404, "A channel that is not there is 404.";
    "RFC-0021 Endpoints", Must, deleted_channel_is_gone, "`DELETE /channels/{id}` closes and deletes the channel.";
}

async fn channel_object(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let body = json!({ "name": site.fresh("channel"), "member_policy": "intent" });
    let made = creating(site, &intent, &body).send().await?.is(&[201])?;
    members(
        &made,
        &[
            "id",
            "intent_id",
            "name",
            "created_by",
            "members",
            "member_policy",
            "status",
            "created_at",
            "message_count",
        ],
    )?;
    same(&made, "/intent_id", intent)?;
    same(&made, "/name", body["name"].clone())?;
    same(&made, "/status", "open")?;
    same(&made, "/message_count", 0)?;
    let read = read_channel(site, &text(&made, "/id")?).await?;
    same(&read, "/name", body["name"].clone())
}

async fn channel_ids_differ(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let one = channel_of(site, &intent, json!({})).await?;
    let other = channel_of(site, &intent, json!({})).await?;
    ensure(one != other, "two channels with different ids", format!("{one} twice"))
}

async fn channel_needs_an_intent(site: &Site) -> Outcome {
    let (intent, nowhere) = (intent_id(site).await?, site.uuid());
    let body = json!({ "name": "nowhere", "member_policy": "intent" });
    creating(site, &intent, &body).send().await?.twin()?;
    creating(site, &nowhere, &body).send().await?.refused_or(&[404])
}

async fn channel_needs_a_name(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let named = json!({ "name": site.fresh("channel"), "member_policy": "intent" });
    creating(site, &intent, &named).send().await?.twin()?;
    creating(site, &intent, &json!({ "member_policy": "intent" })).send().await?.refused()
}

async fn channel_name_is_unique(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let twice = json!({ "name": "twice" });
    creating(site, &intent, &twice).send().await?.twin()?;
    creating(site, &intent, &twice).send().await?.refused()
}

async fn channel_has_its_creator(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let made = creating(site, &intent, &json!({ "name": site.fresh("channel") })).send().await?.ok()?;
    same(&made, "/created_by", site.first_id())
}

async fn channel_keeps_its_members(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let members = json!([site.first_id(), "agent.conform-other"]);
    let id = channel_of(site, &intent, json!({ "members": members, "member_policy": "explicit" })).await?;
    let read = read_channel(site, &id).await?;
    for member in members.as_array().into_iter().flatten() {
        ensure(list(&read["members"])?.contains(member), format!("{member} among the members"), &read)?;
    }
    same(&read, "/member_policy", "explicit")
}

async fn channel_policy_is_intent(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let id = channel_of(site, &intent, json!({})).await?;
    same(&read_channel(site, &id).await?, "/member_policy", "intent")
}

async fn channel_policy_is_an_enum(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let body = |policy: &str| json!({ "name": site.fresh("channel"), "member_policy": policy });
    creating(site, &intent, &body("explicit")).send().await?.twin()?;
    creating(site, &intent, &body("banana")).send().await?.refused()
}

async fn channel_options_have_defaults(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let id = channel_of(site, &intent, json!({ "options": { "audit": false } })).await?;
    same(&read_channel(site, &id).await?, "/options/max_messages", 1000)
}

async fn channel_evicts_the_oldest(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let id = channel_of(site, &intent, json!({ "options": { "max_messages": 2 } })).await?;
    let first = notify(site, &id, 1).await?;
    notify(site, &id, 2).await?;
    let last = notify(site, &id, 3).await?;
    let found = listed(site, &id, "", Who::First).await?.ok()?;
    let found = ids(&found);
    let kept = found.len() == 2 && !found.contains(&first.as_str()) && found.contains(&last.as_str());
    ensure(kept, "the two newest of three messages", found.join(", "))
}

async fn channel_counts_messages(site: &Site) -> Outcome {
    let id = channel(site).await?;
    notify(site, &id, 1).await?;
    notify(site, &id, 2).await?;
    let read = read_channel(site, &id).await?;
    same(&read, "/message_count", 2)?;
    text(&read, "/last_message_at").map(drop)
}

async fn channels_are_listed(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let one = channel_of(site, &intent, json!({})).await?;
    let other = channel_of(site, &intent, json!({})).await?;
    let found = site.get(&at(site, &format!("/intents/{intent}/channels"))).send().await?.ok()?;
    let found = ids(&found);
    let all = found.contains(&one.as_str()) && found.contains(&other.as_str()) && found.len() == 2;
    ensure(all, format!("{one} and {other}"), found.join(", "))
}

async fn unknown_channel_is_404(site: &Site) -> Outcome {
    let nowhere = site.uuid();
    site.get(&at(site, &format!("/channels/{nowhere}"))).send().await?.is(&[404]).map(drop)
}

async fn deleted_channel_is_gone(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let id = channel_of(site, &intent, json!({})).await?;
    let path = at(site, &format!("/channels/{id}"));
    site.request(reqwest::Method::DELETE, &path).send().await?.ok()?;
    site.get(&path).send().await?.is(&[404, 410])?;
    let left = site.get(&at(site, &format!("/intents/{intent}/channels"))).send().await?.ok()?;
    ensure(!ids(&left).contains(&id.as_str()), "no deleted channel in the list", left)
}
