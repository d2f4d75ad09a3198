//! Notifications of people: who is told of what, where and when, and what becomes of a message. Receivers are real sockets;
//! mail and push messages meet real programs in `tests/clients/test_notifications.py`, the page a real browser in
//! `tests/web/notifications.test.js`.

mod powers;
mod receivers;
mod times;
mod topics;

use entente_harness::{Client, Got, Receiver, Value, World, json};

/// Creates a contact point of a person at a receiver, of the form of Slack.
pub async fn contact(person: &Client, id: &str, receiver: &Receiver, settings: Value) -> Value {
    let ask = json!({ "kind": "slack", "address": receiver.url(), "settings": settings });
    person.post(&format!("/people/{id}/contact-points"), ask).await.is(201)
}

/// Sends everything that is due.
pub async fn notify(world: &World) {
    world.server.senders.notifier.step().await.unwrap();
}

/// Advances the clock, and sends everything that is due then.
pub async fn later(world: &World, seconds: i64) {
    world.pass(seconds).await;
    notify(world).await;
}

/// Returns all texts that a request shows in Slack, line by line.
pub fn shown(got: &Got) -> String {
    let body = got.body();
    let mut texts = vec![body["text"].as_str().unwrap().to_owned()];
    for block in body["blocks"].as_array().unwrap() {
        texts.extend(block["text"]["text"].as_str().map(str::to_owned));
        let elements = block["elements"].as_array().map_or(&[][..], Vec::as_slice);
        texts.extend(elements.iter().filter_map(|one| one["text"].as_str()).map(str::to_owned));
    }
    texts.join("\n")
}

/// Returns how many things a message tells.
pub fn things(got: &Got) -> usize {
    shown(got).matches("|Open>").count()
}
