//! Messages: the object, and the types with their addresses and correlations (RFC-0021 §2.1 to §2.3).

use serde_json::{Value, json};

use super::{at, channel, notify, open_channel, replying, send, sending};
use crate::check::checks;
use crate::finding::{Outcome, ensure, members, same, text};
use crate::site::{Site, Who, in_seconds};

checks! {
    "RFC-0021 §2.1", Must, message_object, "A message is created with 201 and has the members of the message object.";
    "RFC-0021 §2.2 channel_id", Must, message_has_its_channel, "`channel_id` and `sender` are those of the request.";
    "RFC-0021 §2.2 message_type", Must, message_type_is_an_enum, "`message_type` is one of four, and nothing else.";
    "RFC-0021 §2.2 payload", Must, payload_is_required, "A message needs a payload.";
    "RFC-0021 §2.2 payload", Must, payload_is_an_object, "A payload is an object.";
    "RFC-0021 §2.2 payload", Must, payload_comes_back, "A payload comes back as it was sent.";
    "RFC-0021 §2.2 metadata", Must, metadata_comes_back, "`metadata` and `expires_at` come back as they were sent.";
    "RFC-0021 §2.3 request", Must, request_needs_an_address, "A request needs `to`.";
    "RFC-0021 §2.3 request", Must, request_has_no_correlation, "A request has no `correlation_id`.";
    "RFC-0021 §2.3 response", Must, response_needs_a_request, "A response needs the id of a request as its `correlation_id`.";
    "RFC-0021 §2.3 response", Must, response_refers_to_a_request, "A response refers to a request, not to another type of message.";
    "RFC-0021 §2.3 response", Must, response_goes_to_the_asker, "A response is for the request's sender, whatever its own `to`.";
    "RFC-0021 §3", Must, reply_is_a_response, "`POST …/reply` sends a response with the correlation and the address of its request.";
    "RFC-0021 §2.3 broadcast", Must, broadcast_is_for_all, "A broadcast has the address `*`.";
    "RFC-0021 §2.3 notify", Must, notify_needs_no_address, "A notification needs no address.";
}

/// Members of a request to somebody.
fn request(site: &Site) -> Value {
    json!({ "message_type": "request", "to": site.first_id(), "payload": { "question": "What schema?" } })
}

async fn message_object(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made =
        sending(site, &channel, Who::First, json!({ "message_type": "notify" })).send().await?.is(&[201])?;
    members(&made, &["id", "channel_id", "sender", "to", "message_type", "payload", "status", "created_at"])?;
    let path = at(site, &format!("/channels/{channel}/messages/{}", text(&made, "/id")?));
    let read = site.get(&path).send().await?.ok()?;
    same(&read, "/id", made["id"].clone())?;
    same(&read, "/message_type", "notify")
}

async fn message_has_its_channel(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made = send(site, &channel, Who::First, json!({ "message_type": "notify" })).await?;
    same(&made, "/channel_id", channel)?;
    same(&made, "/sender", site.first_id())
}

async fn message_type_is_an_enum(site: &Site) -> Outcome {
    let channel = open_channel(site).await?;
    sending(site, &channel, Who::First, json!({ "message_type": "banana" })).send().await?.refused()
}

async fn payload_is_required(site: &Site) -> Outcome {
    let channel = open_channel(site).await?;
    let body = json!({ "sender": site.first_id(), "message_type": "notify" });
    site.post(&at(site, &format!("/channels/{channel}/messages")), &body).send().await?.refused()
}

async fn payload_is_an_object(site: &Site) -> Outcome {
    let channel = open_channel(site).await?;
    let body = json!({ "message_type": "notify", "payload": "just words" });
    sending(site, &channel, Who::First, body).send().await?.refused()
}

async fn payload_comes_back(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let payload = json!({ "a": [1, 2.5, null, true], "deep": { "ü": "„Größe“ 🦀" }, "empty": {} });
    let made =
        send(site, &channel, Who::First, json!({ "message_type": "notify", "payload": payload })).await?;
    let path = at(site, &format!("/channels/{channel}/messages/{}", text(&made, "/id")?));
    same(&site.get(&path).send().await?.ok()?, "/payload", payload)
}

async fn metadata_comes_back(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let metadata = json!({ "priority": "high", "tags": ["a", "b"] });
    let body = json!({ "message_type": "notify", "metadata": metadata, "expires_at": in_seconds(3600) });
    let made = send(site, &channel, Who::First, body).await?;
    same(&made, "/metadata", metadata)?;
    text(&made, "/expires_at").map(drop)
}

async fn request_needs_an_address(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    sending(site, &channel, Who::First, request(site)).send().await?.twin()?;
    sending(site, &channel, Who::First, json!({ "message_type": "request" })).send().await?.refused()
}

async fn request_has_no_correlation(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made = send(site, &channel, Who::First, request(site)).await?;
    let correlation = made.get("correlation_id").unwrap_or(&Value::Null);
    ensure(correlation.is_null(), "no `correlation_id`", &made)
}

async fn response_needs_a_request(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let asked = sending(site, &channel, Who::First, request(site)).send().await?.twin()?;
    let right = json!({ "message_type": "response", "correlation_id": asked["id"] });
    sending(site, &channel, Who::First, right).send().await?.twin()?;
    sending(site, &channel, Who::First, json!({ "message_type": "response" })).send().await?.refused()
}

async fn response_refers_to_a_request(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let asked = text(&send(site, &channel, Who::First, request(site)).await?, "/id")?;
    replying(site, &channel, &asked, Who::First).send().await?.twin()?;
    let id = notify(site, &channel, 1).await?;
    // Requests are answered here, so 404 says that there is none with this id.
    replying(site, &channel, &id, Who::First).send().await?.refused_or(&[404])
}

async fn response_goes_to_the_asker(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let asked = text(&send(site, &channel, Who::First, request(site)).await?, "/id")?;
    let body = json!({ "message_type": "response", "correlation_id": asked });
    let made = send(site, &channel, Who::First, body).await?;
    same(&made, "/correlation_id", asked)?;
    same(&made, "/to", site.first_id())
}

async fn reply_is_a_response(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let asked = text(&send(site, &channel, Who::First, request(site)).await?, "/id")?;
    let made = replying(site, &channel, &asked, Who::First).send().await?.is(&[201])?;
    same(&made, "/message_type", "response")?;
    same(&made, "/correlation_id", asked)?;
    same(&made, "/to", site.first_id())
}

async fn broadcast_is_for_all(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made = send(site, &channel, Who::First, json!({ "message_type": "broadcast" })).await?;
    same(&made, "/to", "*")
}

async fn notify_needs_no_address(site: &Site) -> Outcome {
    let channel = channel(site).await?;
    let made = send(site, &channel, Who::First, json!({ "message_type": "notify" })).await?;
    same(&made, "/message_type", "notify")
}
