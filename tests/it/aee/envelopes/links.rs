//! Rules apply on the link to each subscriber of a channel (AEE §11.5): a channel does not bypass them.

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use super::{answer, mail, task_envelope, two, with};
use entente_harness::envelopes::signed;
use entente_harness::identities::key;
use entente_harness::{Client, Value, World, json};

/// The subscribers of `bus.ops`, named after the rules for them.
struct Partners {
    ada: Client,
    bob: Client,
    shut: Client,
    less: Client,
    strict: Client,
}

async fn partners() -> (World, Partners) {
    let (world, ada, bob) = two().await;
    let admin = world.admin().await;
    for (name, rule) in [
        ("shut", json!({ "to": "partner.shut", "deny": ["ops.**"] })),
        ("less", json!({ "to": "partner.less", "redact": ["/customer/email"], "max_priority": "low" })),
        ("strict", json!({ "to": "partner.strict", "require_signature": true })),
    ] {
        admin.put(&format!("/aee/rules/{name}"), rule).await.ok();
    }
    let (shut, less) = (world.agent("partner.shut").await, world.agent("partner.less").await);
    let strict = world.agent("partner.strict").await;
    let all = Partners { ada, bob, shut, less, strict };
    for (client, who) in [
        (&all.ada, "agent.ada"),
        (&all.bob, "agent.bob"),
        (&all.shut, "partner.shut"),
        (&all.less, "partner.less"),
        (&all.strict, "partner.strict"),
    ] {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
    }
    (world, all)
}

/// Returns an envelope to the channel with a payload that not everyone may see in full.
fn said(world: &World, id: &str, more: Value) -> Value {
    let payload = json!({ "customer": { "email": "dan@secret.example", "n": 1 } });
    let envelope = task_envelope(world, id, ("agent.ada", "bus.ops"));
    with(with(envelope, json!({ "type": "event", "priority": "urgent", "payload": payload })), more)
}

impl Partners {
    /// Returns the number of envelopes of bob, shut, less and strict.
    async fn have(&self) -> [usize; 4] {
        [
            mail(&self.bob, "agent.bob").await.len(),
            mail(&self.shut, "partner.shut").await.len(),
            mail(&self.less, "partner.less").await.len(),
            mail(&self.strict, "partner.strict").await.len(),
        ]
    }
}

#[tokio::test]
async fn what_would_be_too_large_for_one_who_listens_is_refused_alone() {
    let (world, all) = partners().await;
    let long = |id: &str, size: usize| {
        let payload = json!({ "customer": { "email": "x" }, "said": "x".repeat(size) });
        said(&world, id, json!({ "payload": payload }))
    };
    let most = 256 * 1024 - long("envelope-1", 0).to_string().len();
    let batch = json!([long("envelope-1", most), long("envelope-2", 10)]);
    let answers = all.ada.post("/aee/envelopes/batch", batch).await.ok();
    let items = answers["results"].as_array().unwrap();
    assert_eq!(items[0]["error"]["code"], "too_large", "{answers}");
    assert!(items[0]["error"]["detail"].as_str().unwrap().contains("hands this on"), "{answers}");
    assert_eq!((answers["accepted"].as_i64(), answers["refused"].as_i64()), (Some(1), Some(1)));
    assert_eq!(all.have().await, [1, 0, 1, 0]);
    world.end().await;
}

#[tokio::test]
async fn each_who_listens_gets_what_may_pass_to_them() {
    let (world, all) = partners().await;
    let event = said(&world, "envelope-1", json!({}));
    let receipt = all.ada.post("/aee/envelopes", event.clone()).await.is(202);
    assert_eq!((&receipt["status"], &receipt["delivered"]), (&json!("accepted"), &json!(2)));
    assert_eq!(all.have().await, [1, 0, 1, 0]);
    assert_eq!(mail(&all.bob, "agent.bob").await[0].1, event);
    let page = all.less.get("/aee/mailboxes/partner.less").await.ok();
    assert!(!page.to_string().contains("dan@secret.example"), "{page}");
    let item = &page["items"][0];
    assert_eq!((&item["original_id"], &item["effective_priority"]), (&json!("envelope-1"), &json!("low")));
    let made = &item["envelope"];
    assert_eq!((&made["from"], &made["to"]), (&json!("service.entente"), &json!("partner.less")));
    assert_eq!(made["payload"]["customer"], json!({ "n": 1 }));
    for client in [&all.less, &all.shut, &all.strict] {
        client.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    }
    // A signed envelope passes where a signature is required.
    let pair = json!({ "kid": "one", "algorithm": "ed25519", "public_key": key(1).public_key() });
    all.ada.post("/aee/keys", pair).await.is(201);
    let event = signed(said(&world, "envelope-2", json!({})), 1);
    assert_eq!(all.ada.post("/aee/envelopes", event).await.is(202)["delivered"], 3);
    assert_eq!(all.have().await, [2, 0, 2, 1]);
    // Members that a rule removes for everyone are not redacted a second time.
    let admin = world.admin().await;
    admin.put("/aee/rules/all", json!({ "to": "bus.ops", "redact": ["/customer"] })).await.ok();
    let receipt = all.ada.post("/aee/envelopes", said(&world, "envelope-3", json!({}))).await.is(202);
    assert_eq!(receipt["status"], "redacted");
    assert_eq!(all.have().await, [3, 0, 3, 1]);
    let (bobs, theirs) = (mail(&all.bob, "agent.bob").await, mail(&all.less, "partner.less").await);
    assert_eq!((&bobs[2].1, &bobs[2].1["to"]), (&theirs[2].1, &json!("bus.ops")));
    world.end().await;
}

#[tokio::test]
async fn a_task_to_a_channel_is_answered_over_each_link() {
    let (world, all) = partners().await;
    let task = said(&world, "envelope-1", json!({ "type": "task" }));
    all.ada.post("/aee/envelopes", task.clone()).await.is(202);
    assert_eq!(all.have().await, [1, 0, 1, 0]);
    let made = mail(&all.less, "partner.less").await.remove(0).1;
    all.less.post("/aee/envelopes", answer(&world, "envelope-2", &made, "result")).await.is(202);
    let bobs = with(answer(&world, "envelope-3", &task, "result"), json!({ "from": "agent.bob" }));
    all.bob.post("/aee/envelopes", bobs).await.is(202);
    let forged = with(answer(&world, "envelope-4", &task, "result"), json!({ "from": "partner.shut" }));
    all.shut.post("/aee/envelopes", forged).await.refused(422, "reply_mismatch");
    let told = mail(&all.ada, "agent.ada").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(_, one)| one["reply_to"] == "envelope-1"), "{told:?}");
    let thread = all.ada.get("/aee/threads/thread-00000001").await.ok();
    let leaf = thread["envelopes"].as_array().unwrap().iter().find(|leaf| leaf["envelope"] == task).unwrap();
    let closed = |who: &str| json!({ "respondent": who, "status": "closed" });
    assert_eq!(leaf["pairs"], json!([closed("agent.bob"), closed("partner.less")]));
    // No permitted subscriber is left.
    for (client, who) in [(&all.bob, "agent.bob"), (&all.less, "partner.less")] {
        client.delete(&format!("/aee/buses/bus.ops/subscriptions/{who}")).await.is(204);
    }
    let task = said(&world, "envelope-5", json!({ "type": "task" }));
    all.ada.post("/aee/envelopes", task).await.refused(422, "no_recipient");
    let quiet = all.ada.post("/aee/envelopes", said(&world, "envelope-6", json!({}))).await.is(202);
    assert!(quiet["warnings"].as_array().unwrap().contains(&json!("no_subscribers")), "{quiet}");
    world.end().await;
}

#[tokio::test]
async fn what_a_person_agrees_to_goes_over_each_link() {
    let (world, all) = partners().await;
    seeds::seed(world.ctx(), PrincipalKind::Human, "human.eve", "key-of-eve").await.unwrap();
    let held = json!({ "type": "task", "requires": { "human_approval": true, "timeout_ms": 60_000 } });
    let receipt = all.ada.post("/aee/envelopes", said(&world, "envelope-1", held)).await.is(202);
    assert_eq!(receipt["status"], "held");
    let eve = world.client("key-of-eve");
    let waits = eve.get("/aee/approvals").await.ok();
    assert_eq!(waits[0]["respondents"], json!(["agent.bob", "partner.less"]), "not whom the rules bar");
    let decided = eve.post("/aee/approvals/envelope-1", json!({ "decision": "approve" })).await.ok();
    assert_eq!(decided["delivered"], 2);
    assert_eq!(all.have().await, [1, 0, 1, 0]);
    let made = mail(&all.less, "partner.less").await.remove(0).1;
    assert_eq!(
        (&made["from"], &made["payload"]["customer"]),
        (&json!("service.entente"), &json!({ "n": 1 }))
    );
    all.less.post("/aee/envelopes", answer(&world, "envelope-2", &made, "result")).await.is(202);
    assert_eq!(mail(&all.ada, "agent.ada").await[0].1["reply_to"], "envelope-1");
    world.pass(60).await;
    let told = mail(&all.ada, "agent.ada").await;
    assert_eq!((told.len(), &told[1].1["payload"]["code"]), (2, &json!("E_TIMEOUT")), "bob did not answer");
    world.end().await;
}

#[tokio::test]
async fn what_has_the_id_of_another_one_opens_no_link() {
    let (world, all) = partners().await;
    let (open, shut) = (json!({ "intent": "shop.sale" }), json!({}));
    // The same id twice in one batch, in both orders: the rules apply to the accepted one.
    for (id, first, second, expected) in
        [("envelope-1", open.clone(), shut.clone(), [1, 1, 1, 0]), ("envelope-2", shut, open, [2, 1, 2, 0])]
    {
        let batch = json!([said(&world, id, first), said(&world, id, second)]);
        assert_eq!(all.ada.post("/aee/envelopes/batch", batch).await.is(207)["accepted"], 1);
        assert_eq!(all.have().await, expected, "{id}");
    }
    world.end().await;
}
