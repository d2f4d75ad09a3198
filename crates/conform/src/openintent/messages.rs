//! Delivery: pulling, pushing, receipts and expiry (RFC-0021 §2.4, §2.5 and §3).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{ROLE, at, channel, channel_of, hold_role, ids, intent_id, listed, notify, replying, send};
use crate::check::checks;
use crate::finding::{Finding, Outcome, ensure, failed, list, same, skipped, text};
use crate::site::{Site, Who, in_seconds};
use crate::sse::Stream;

checks! {
    "RFC-0021 §2.4.1", Must, messages_come_in_order, "A channel's messages are listed, the oldest first.";
    "RFC-0021 §2.4.1", Must, since_a_message, "`since` with a message's id lists what came after it.";
    "RFC-0021 §2.4.1", Must, since_a_time, "`since` with a time lists what came after it.";
    "RFC-0021 §2.4.1", Must, to_filters, "`to` lists what is for that agent, and not what is for another one.";
    "RFC-0021 §2.4.2", Must, pushed_over_sse, "Who subscribes to the intent gets an event `channel_message` with the full message.";
    "RFC-0021 §2.5", Must, status_is_delivered, "A message that the server has stored is `delivered`, or still `pending`.";
    "RFC-0021 §2.5", Must, read_by_its_target, "The target marks a message `read`, which sets `read_at`.";
    "RFC-0021 §2.5", Must, status_is_an_enum, "A message's status is one of four, and nothing else.";
    "RFC-0021 §2.2 expires_at", Must, expired_is_not_delivered, "An expired message is not delivered to its target any more.";
    "RFC-0021 §3.1", Must, request_expires, "A request that nobody answers in time becomes `expired`.";
    "RFC-0021 §3.2", Must, many_responses, "Several responses to a request share its id as their correlation.";
}

/// Seconds that a message may live: longer than a busy server takes to store it.
const SHORT: i64 = 3;
/// Time after which it has expired, on the server's clock too.
const EXPIRED: Duration = Duration::from_millis(4_500);

async fn messages_come_in_order(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let mut sent = Vec::new();
    for n in 1..=4 {
        sent.push(notify(site, &channel, n).await?);
    }
    let found = listed(site, &channel, "", Who::First).await?.ok()?;
    list(&found)?;
    ensure(ids(&found) == sent, format!("the messages {}", sent.join(", ")), ids(&found).join(", "))
}

async fn since_a_message(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    notify(site, &channel, 1).await?;
    let second = notify(site, &channel, 2).await?;
    let third = notify(site, &channel, 3).await?;
    let found = listed(site, &channel, &format!("?since={second}"), Who::First).await?.ok()?;
    ensure(ids(&found) == [third.as_str()], format!("{third} alone"), ids(&found).join(", "))
}

async fn since_a_time(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let first = notify(site, &channel, 1).await?;
    sleep(Duration::from_millis(1_100)).await;
    let between =
        text(&send(site, &channel, Who::First, json!({ "message_type": "notify" })).await?, "/created_at")?;
    sleep(Duration::from_millis(1_100)).await;
    let last = notify(site, &channel, 3).await?;
    let between = between.replace('+', "%2B");
    let found = listed(site, &channel, &format!("?since={between}"), Who::First).await?.ok()?;
    let found = ids(&found);
    let right = found.contains(&last.as_str()) && !found.contains(&first.as_str());
    ensure(right, format!("{last}, and not {first}"), found.join(", "))
}

async fn to_filters(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let to = |agent: &str| json!({ "message_type": "notify", "to": agent });
    let mine = text(&send(site, &channel, Who::First, to(site.first_id())).await?, "/id")?;
    let other = text(&send(site, &channel, Who::First, to("agent.conform-other")).await?, "/id")?;
    let found = listed(site, &channel, &format!("?to={}", site.first_id()), Who::First).await?.ok()?;
    let found = ids(&found);
    let right = found.contains(&mine.as_str()) && !found.contains(&other.as_str());
    ensure(right, format!("{mine}, and not {other}"), found.join(", "))
}

/// Opens the intent's stream under one of the paths that servers have; RFC-0021 names none.
async fn stream<'a>(site: &'a Site, intent: &str) -> Result<Stream<'a>, Finding> {
    let mut last = String::new();
    for path in [format!("/subscribe/intents/{intent}"), format!("/intents/{intent}/subscribe")] {
        let stream = Stream::open(site, site.get(&at(site, &path))).await?;
        if stream.status == 200 && stream.media.starts_with("text/event-stream") {
            return Ok(stream);
        }
        last = format!("{} {}", stream.status, stream.media);
    }
    Err(failed("a stream of the intent (`text/event-stream`)", last))
}

async fn pushed_over_sse(site: &Site) -> Outcome {
    let intent = intent_id(site).await?;
    let channel = channel_of(site, &intent, json!({})).await?;
    let mut stream = stream(site, &intent).await?;
    let sent = notify(site, &channel, 7).await?;
    let limit = site.limit.min(Duration::from_secs(5));
    let wanted = format!("an event `channel_message` with the message {sent}");
    let is_it = |event: &crate::sse::Event| {
        event.name.eq_ignore_ascii_case("channel_message") && event.data.to_string().contains(&sent)
    };
    let event = stream.until(limit, &wanted, is_it).await?;
    same(&event.data, "/id", sent)?;
    same(&event.data, "/payload/n", 7)
}

async fn status_is_delivered(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made = send(site, &channel, Who::First, json!({ "message_type": "notify" })).await?;
    let status = text(&made, "/status")?;
    ensure(status == "delivered" || status == "pending", "the status `delivered` or `pending`", made)
}

async fn read_by_its_target(site: &Site) -> Outcome {
    let target = site.second_id()?;
    let channel = channel(site).await?;
    let body = json!({ "message_type": "notify", "to": target });
    let id = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    let path = at(site, &format!("/channels/{channel}/messages/{id}"));
    let read = site.patch(&path, &json!({ "status": "read" })).by(Who::Second).send().await?.ok()?;
    same(&read, "/status", "read")?;
    text(&read, "/read_at").map(drop)
}

async fn status_is_an_enum(site: &Site) -> Outcome {
    let target = site.second_id()?;
    let channel = channel(site).await?;
    let body = json!({ "message_type": "notify", "to": target });
    let id = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    let path = at(site, &format!("/channels/{channel}/messages/{id}"));
    let patch = |status: &str| site.patch(&path, &json!({ "status": status })).by(Who::Second);
    patch("banana").send().await?.refused()?;
    // Afterwards: a message that is read already might be refused for that.
    patch("read").send().await?.twin().map(drop)
}

async fn expired_is_not_delivered(site: &Site) -> Outcome {
    let target = site.second_id()?;
    let channel = channel(site).await?;
    let body = json!({ "message_type": "notify", "to": target, "expires_at": in_seconds(SHORT) });
    let begun = Instant::now();
    let short = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    let before = listed(site, &channel, "", Who::Second).await?.ok()?;
    if !ids(&before).contains(&short.as_str()) {
        if begun.elapsed() >= Duration::from_secs(2) {
            return Err(skipped("the server is too slow: the message had expired before it could be listed"));
        }
        // A list that never has it shows nothing by not having it later.
        return Err(failed(format!("{short} in the target's list before it expires"), before));
    }
    sleep(EXPIRED).await;
    let found = listed(site, &channel, "", Who::Second).await?.ok()?;
    let delivered = |one: &&Value| one["id"] == json!(short) && one["status"] != json!("expired");
    let still = list(&found)?.iter().find(delivered);
    ensure(still.is_none(), "no expired message in the target's list", still.unwrap_or(&Value::Null))
}

async fn request_expires(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let body =
        json!({ "message_type": "request", "to": "agent.conform-other", "expires_at": in_seconds(SHORT) });
    let id = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    sleep(EXPIRED).await;
    let path = at(site, &format!("/channels/{channel}/messages/{id}"));
    same(&site.get(&path).send().await?.ok()?, "/status", "expired")
}

async fn many_responses(site: &Site) -> Outcome {
    hold_role(site, Who::First).await?;
    hold_role(site, Who::Second).await?;
    let channel = channel(site).await?;
    let body = json!({ "message_type": "request", "to": format!("role:{ROLE}") });
    let asked = text(&send(site, &channel, Who::First, body).await?, "/id")?;
    replying(site, &channel, &asked, Who::First).send().await?.ok()?;
    replying(site, &channel, &asked, Who::Second).send().await?.ok()?;
    let found = listed(site, &channel, "", Who::First).await?.ok()?;
    let answers = list(&found)?.iter().filter(|one| one["correlation_id"] == json!(asked)).count();
    ensure(answers == 2, "two responses with the request's id", &found)
}
