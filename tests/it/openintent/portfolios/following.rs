//! Following a portfolio: by its stream, in both families of paths, and by webhooks (RFC-0006).

use super::{portfolio, put};
use crate::openintent::graphs::{intent, moved, shut};
use entente_harness::{Client, Event, Receiver, Setup, Sse, World, ids, json, send, subscribe};

async fn note(client: &Client, intent: &str, n: u64) {
    let event = json!({ "event_type": "note", "payload": { "n": n } });
    client.post(&format!("/intents/{intent}/events"), event).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_stream_has_what_happens_on_its_intents_as_they_come_and_go() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let folio = portfolio(&bob, "Q1").await;
    let first = intent(&ada, "first", json!({})).await;
    let second = intent(&ada, "second", json!({})).await;
    let outside = intent(&ada, "outside", json!({})).await;
    put(&bob, &folio, &first).await;
    let mut plain = Sse::open(&bob, &format!("/subscribe/portfolios/{folio}")).await;
    let mut sdk = Sse::open(&bob, &format!("/portfolios/{folio}/subscribe")).await;
    // Visibility is decided when a frame is sent, so each step is received before the next one.
    let mut heard = async |expected: [&str; 2], of_two: &[&str]| {
        let both = [sdk.next_few(of_two.len()).await, plain.next_few(of_two.len()).await];
        let names = |frames: &[Event]| frames.iter().map(|frame| frame.name.clone()).collect::<Vec<_>>();
        assert_eq!((names(&both[0])[0].as_str(), names(&both[1])[0].as_str()), (expected[0], expected[1]));
        assert_eq!(names(&both[0])[1..], of_two[1..]);
        both
    };
    note(&ada, &outside, 0).await;
    note(&ada, &second, 0).await;
    note(&ada, &first, 1).await;
    heard(["note", "note"], &["note"]).await;
    moved(&ada, &first, "active").await;
    let [begun, plainly] = heard(["STATUS_CHANGED", "status_changed"], &["status"]).await;
    assert_eq!((&begun[0].data["intent_id"], &plainly[0].data["id"]), (&json!(first), &json!(first)));
    put(&bob, &folio, &second).await;
    note(&ada, &second, 2).await;
    let channel = ada.post(&format!("/intents/{second}/channels"), json!({ "name": "talk" })).await.is(201);
    send(&ada, channel["id"].as_str().unwrap(), json!({ "sender": "agent.ada", "payload": {} })).await;
    let order = ["added_to_portfolio", "note", "channel.created", "channel_message"];
    heard([order[0]; 2], &order).await;
    bob.delete(&format!("/portfolios/{folio}/intents/{first}")).await.is(200);
    note(&ada, &first, 0).await;
    note(&ada, &second, 3).await;
    let [after, _] = heard(["removed_from_portfolio"; 2], &["removed_from_portfolio", "note"]).await;
    assert_eq!(after[1].data["payload"]["n"], 3);
    shut(&ada, &second).await;
    note(&ada, &second, 0).await;
    bob.patch(&format!("/portfolios/{folio}/status"), json!({ "status": "completed" })).await.is(200);
    heard(["portfolio.status_changed"; 2], &["portfolio.status_changed"]).await;
    // A client that resumes gets the rest, for the intents that are in the portfolio and readable now.
    let mut late = Sse::resume(&bob, &format!("/portfolios/{folio}/subscribe"), Some(&begun[0].id)).await;
    assert_eq!(late.next().await.name, "removed_from_portfolio");
    assert_eq!(late.next().await.name, "portfolio.status_changed");
    // For others it does not exist.
    Sse::refused(&ada, &format!("/portfolios/{folio}/subscribe")).await.refused(404, "not_found");
    Sse::refused(&ada, &format!("/subscribe/portfolios/{folio}")).await.refused(404, "not_found");
    Sse::refused(&bob, "/portfolios/what/subscribe").await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test]
async fn webhooks_follow_it_too() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    let folio = portfolio(&bob, "Q1").await;
    let first = intent(&ada, "first", json!({})).await;
    let second = intent(&ada, "second", json!({})).await;
    let outside = intent(&ada, "outside", json!({})).await;
    put(&bob, &folio, &first).await;
    let receiver = Receiver::start().await;
    let made =
        subscribe(&bob, &receiver.url(), json!({ "portfolio_id": folio, "event_types": ["note"] })).await;
    assert_eq!((&made["portfolio_id"], &made["portfolioId"]), (&json!(folio), &json!(folio)));
    let list = async |query: &str| ids(&bob.get(&format!("/subscriptions?{query}")).await.ok());
    assert_eq!(list(&format!("portfolio_id={folio}")).await, [made["id"].as_str().unwrap()]);
    assert_eq!(list("portfolio_id=folio_01J9ZK4T6Q8R2V5X7Y9B1C3D5F").await, [""; 0]);
    assert_eq!(list("portfolio_id=what").await, [""; 0]);
    let got = async |expected: &[u64]| {
        world.hooks().await;
        let got: Vec<u64> =
            receiver.take().iter().map(|one| one.body()["data"]["payload"]["n"].as_u64().unwrap()).collect();
        assert_eq!(got, expected);
    };
    note(&ada, &first, 1).await;
    note(&ada, &second, 0).await;
    note(&ada, &outside, 0).await;
    got(&[1]).await;
    put(&bob, &folio, &second).await;
    note(&ada, &second, 2).await;
    bob.delete(&format!("/portfolios/{folio}/intents/{first}")).await.is(200);
    note(&ada, &first, 0).await;
    got(&[2]).await;
    shut(&ada, &second).await;
    note(&ada, &second, 0).await;
    got(&[]).await;
    // Unknown portfolios, those of others, and two topics at once are refused.
    let ask = |more: serde_json::Value| {
        let mut ask = json!({ "webhook_url": receiver.url() });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    ada.post("/subscriptions", ask(json!({ "portfolio_id": folio }))).await.refused(404, "not_found");
    bob.post("/subscriptions", ask(json!({ "portfolio_id": "what" }))).await.refused(404, "not_found");
    let both = ask(json!({ "portfolio_id": folio, "intent_id": first }));
    bob.post("/subscriptions", both).await.refused(422, "unprocessable");
    world.end().await;
}
