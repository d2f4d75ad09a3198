//! Tasks that wait for a person's approval (`requires.human_approval`, AEE §3).

use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;

use entente_harness::browser::Browser;
use entente_harness::envelopes::{answer, mail, task_envelope, two, with};
use entente_harness::keys::key;
use entente_harness::people::logged_in;
use entente_harness::{Client, Receiver, Reply, Setup, Value, World, json, subscribe};

/// Returns a client with its own key for a person.
async fn person(world: &World, id: &str) -> Client {
    let secret = format!("key-of-{id}");
    seeds::seed(world.ctx(), PrincipalKind::Human, id, &secret).await.unwrap();
    world.client(&secret)
}

/// Returns a task that requires a person's approval.
fn asked(world: &World, id: &str, link: (&str, &str)) -> Value {
    with(
        task_envelope(world, id, link),
        json!({ "requires": { "human_approval": true, "timeout_ms": 60_000 } }),
    )
}

async fn decide(client: &Client, id: &str, decision: &str) -> Reply {
    client.post(&format!("/aee/approvals/{id}"), json!({ "decision": decision })).await
}

async fn waiting(client: &Client) -> Vec<String> {
    let list = client.get("/aee/approvals").await.ok();
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_task_is_handed_out_when_a_person_agrees() {
    let (world, ada, bob) = two().await;
    let eve = person(&world, "human.eve").await;
    let receiver = Receiver::start().await;
    subscribe(&bob, &receiver.url(), json!({ "mailbox": "agent.bob" })).await;
    let task = asked(&world, "envelope-1", ("agent.ada", "agent.bob"));
    let receipt = ada.post("/aee/envelopes", task.clone()).await.is(202);
    assert_eq!((&receipt["status"], &receipt["delivered"]), (&json!("held"), &json!(0)));
    assert!(receipt["seq"].is_null());
    // Only its sender and its approver see the task.
    assert_eq!(mail(&bob, "agent.bob").await, []);
    bob.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    bob.get("/aee/threads/thread-00000001").await.refused(404, "not_found");
    ada.get("/aee/envelopes/envelope-1").await.ok();
    let early = answer(&world, "envelope-2", &task, "result");
    bob.post("/aee/envelopes", early).await.refused(422, "reply_mismatch");
    let list = eve.get("/aee/approvals").await.ok();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!((&list[0]["id"], &list[0]["respondents"]), (&json!("envelope-1"), &json!(["agent.bob"])));
    assert_eq!(list[0]["envelope"], task);
    world.clock.advance(10);
    let decided = decide(&eve, "envelope-1", "approve").await.ok();
    assert_eq!((&decided["decided_by"], &decided["delivered"]), (&json!("human.eve"), &json!(1)));
    let lies = mail(&bob, "agent.bob").await;
    assert_eq!(lies, [(1, task.clone())]);
    assert_eq!(waiting(&eve).await, [] as [&str; 0]);
    for decision in ["approve", "decline"] {
        decide(&eve, "envelope-1", decision).await.refused(409, "invalid_transition");
    }
    world.hooks().await;
    assert_eq!(receiver.got()[0].body()["data"]["envelope"], task);
    let again = ada.post("/aee/envelopes", task.clone()).await.refused(409, "duplicate_id");
    assert_eq!(again["receipt"], receipt, "a retry gets the first receipt");
    bob.get("/aee/envelopes/envelope-1").await.ok();
    bob.post("/aee/envelopes", answer(&world, "envelope-3", &task, "result")).await.is(202);
    assert_eq!(mail(&ada, "agent.ada").await.len(), 1);
    world.end().await;
}

/// A held task is in its approver's inbox, with its content, and in no other inbox.
#[tokio::test]
async fn what_waits_is_in_the_inbox_of_who_decides_and_in_no_other() {
    let settings = vec![("ENTENTE_AEE_APPROVER", "human.eve")];
    let world = World::with(Setup { settings, live: false }).await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let mut eve = logged_in(&world, "human.eve", false).await;
    let mut root = logged_in(&world, "human.root", true).await;
    let said = json!({ "payload": { "secret": "the <plan> of ada" } });
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", with(asked(&world, id, ("agent.ada", "agent.bob")), said.clone()))
            .await
            .is(202);
    }
    let inbox = eve.get("/inbox").await;
    assert!(inbox.text.contains("(2) Inbox") && inbox.text.contains("Agree to this task"), "{}", inbox.text);
    for part in ["agent.ada", "asks agent.bob", "ops.backup.check", "the &#60;plan&#62; of ada"] {
        assert!(inbox.text.contains(part), "{part}: {}", inbox.text);
    }
    for path in ["/inbox", "/threads?corr=thread-00000001", "/dashboard"] {
        let page = root.get(path).await;
        assert!(!page.text.contains("the &#60;plan"), "{path}: {}", page.text);
    }
    let agree = [("id", "envelope-1"), ("decision", "approve"), ("reason", "")];
    assert_eq!(root.act("/inbox/held", "/inbox", &agree).await.status, 403, "another person's to decide");
    let done = eve.act("/inbox/held", "/inbox", &agree).await;
    assert_eq!((done.status, done.location.as_str()), (303, "/inbox"));
    assert_eq!(eve.act("/inbox/held", "/inbox", &agree).await.status, 409);
    let decline = [("id", "envelope-2"), ("decision", "decline"), ("reason", "not on a Saturday")];
    assert_eq!(eve.act("/inbox/held", "/inbox", &decline).await.status, 303);
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1);
    let told = mail(&ada, "agent.ada").await;
    assert!(told[0].1["payload"]["message"].as_str().unwrap().contains("not on a Saturday"));
    assert!(eve.get("/inbox").await.text.contains("Nothing waits for you."));
    let mut stranger = Browser::new(world.address);
    assert_eq!(stranger.post("/inbox/held", &agree).await.status, 303, "to the login");
    world.end().await;
}

#[tokio::test]
async fn a_task_that_a_person_declines_ends_with_an_error() {
    let (world, ada, bob) = two().await;
    let eve = person(&world, "human.eve").await;
    let task = asked(&world, "envelope-1", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", task.clone()).await.is(202);
    let said = json!({ "decision": "decline", "reason": "not on a Saturday" });
    eve.post("/aee/approvals/envelope-1", said).await.ok();
    let told = mail(&ada, "agent.ada").await;
    assert_eq!(told.len(), 1);
    let error = &told[0].1;
    assert_eq!(
        (&error["type"], &error["from"], &error["reply_to"], &error["corr"]),
        (&json!("error"), &json!("service.entente"), &task["id"], &task["corr"])
    );
    assert_eq!(
        (&error["payload"]["code"], &error["payload"]["retryable"]),
        (&json!("E_DECLINED"), &json!(false))
    );
    assert!(error["payload"]["message"].as_str().unwrap().contains("not on a Saturday"));
    assert_eq!(mail(&bob, "agent.bob").await, []);
    bob.get("/aee/envelopes/envelope-1").await.refused(404, "not_found");
    bob.post("/aee/envelopes", answer(&world, "envelope-2", &task, "result"))
        .await
        .refused(409, "task_closed");
    decide(&eve, "envelope-1", "approve").await.refused(409, "invalid_transition");
    // Its timeout no longer applies.
    world.pass(61).await;
    assert_eq!(mail(&ada, "agent.ada").await.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn only_a_person_decides_and_not_who_asked() {
    let (world, ada, bob) = two().await;
    let (eve, dan) = (person(&world, "human.eve").await, person(&world, "human.dan").await);
    let admin = world.admin().await;
    let all = json!({ "scopes": ["mail:read", "mail:write", "admin"], "act_as": ["*"] });
    let strong = key(&world, &admin, "agent.strong", all).await.client;
    ada.post("/aee/envelopes", asked(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    dan.post("/aee/envelopes", asked(&world, "envelope-2", ("human.dan", "agent.bob"))).await.is(202);
    for client in [&ada, &bob, &strong, &strong.acting_as("human.eve"), &world.any(), &admin] {
        client.get("/aee/approvals").await.refused(403, "forbidden");
        decide(client, "envelope-1", "approve").await.refused(403, "forbidden");
    }
    let weak = key(&world, &admin, "human.eve", json!({ "scopes": ["mail:read"] })).await.client;
    decide(&weak, "envelope-1", "approve").await.refused(403, "scope_missing");
    let given = key(&world, &admin, "human.eve", json!({})).await.client;
    assert_eq!(waiting(&given).await.len(), 2, "a key that somebody else made looks");
    decide(&given, "envelope-1", "approve").await.refused(403, "not_the_principal");
    decide(&dan, "envelope-2", "approve").await.refused(403, "forbidden");
    assert_eq!((waiting(&dan).await, waiting(&eve).await.len()), (vec!["envelope-1".to_owned()], 2));
    decide(&eve, "envelope-unknown", "approve").await.refused(404, "not_found");
    decide(&eve, "envelope-1", "perhaps").await.refused(422, "invalid_request");
    let plain = task_envelope(&world, "envelope-3", ("agent.ada", "agent.bob"));
    ada.post("/aee/envelopes", plain).await.is(202);
    decide(&eve, "envelope-3", "decline").await.refused(404, "not_found");
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1, "nothing of it was handed out");
    decide(&eve, "envelope-2", "approve").await.ok();
    decide(&dan, "envelope-1", "approve").await.ok();
    let ids: Vec<Value> =
        mail(&bob, "agent.bob").await.into_iter().map(|(_, one)| one["id"].clone()).collect();
    assert_eq!(ids, ["envelope-3", "envelope-2", "envelope-1"]);
    world.end().await;
}

#[tokio::test]
async fn the_one_who_is_named_decides_alone() {
    let settings = vec![("ENTENTE_AEE_APPROVER", "human.eve")];
    let world = World::with(Setup { settings, ..Setup::default() }).await;
    let (ada, _bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (eve, dan) = (person(&world, "human.eve").await, person(&world, "human.dan").await);
    ada.post("/aee/envelopes", asked(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    dan.get("/aee/approvals").await.refused(403, "forbidden");
    decide(&dan, "envelope-1", "approve").await.refused(403, "forbidden");
    decide(&eve, "envelope-1", "approve").await.ok();
    world.end().await;
}

#[tokio::test]
async fn what_is_for_a_person_or_the_server_waits_for_nobody() {
    let (world, ada, bob) = two().await;
    let (eve, _odd) = (person(&world, "human.eve").await, person(&world, "eve").await);
    for (id, to) in [("envelope-1", "human.eve"), ("envelope-2", "eve")] {
        let receipt = ada.post("/aee/envelopes", asked(&world, id, ("agent.ada", to))).await.is(202);
        assert_eq!(receipt["status"], "accepted", "{to}");
    }
    // A name alone does not make a principal a person.
    world.agent("human.robot").await;
    let receipt = ada.post("/aee/envelopes", asked(&world, "envelope-3", ("agent.ada", "human.robot"))).await;
    assert_eq!(receipt.is(202)["status"], "held");
    let event = with(asked(&world, "envelope-4", ("agent.ada", "agent.bob")), json!({ "type": "event" }));
    assert_eq!(ada.post("/aee/envelopes", event).await.is(202)["status"], "accepted");
    let ping = with(
        asked(&world, "envelope-5", ("agent.ada", "service.entente")),
        json!({ "intent": "aee.status.ping" }),
    );
    assert_eq!(ada.post("/aee/envelopes", ping).await.is(200)["status"], "answered");
    assert_eq!(waiting(&eve).await, ["envelope-3"]);
    assert_eq!(mail(&bob, "agent.bob").await.len(), 1);
    world.pass(60).await;
    world.end().await;
}

#[tokio::test]
async fn a_task_that_waits_runs_out_like_any() {
    let (world, ada, bob) = two().await;
    let eve = person(&world, "human.eve").await;
    ada.post("/aee/envelopes", asked(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    world.clock.advance(60);
    // The timeout applies at once, before the sweep records it.
    assert_eq!(waiting(&eve).await, [] as [&str; 0]);
    decide(&eve, "envelope-1", "approve").await.refused(409, "task_closed");
    world.sweep().await;
    decide(&eve, "envelope-1", "approve").await.refused(409, "task_closed");
    let told = mail(&ada, "agent.ada").await;
    assert_eq!((told.len(), &told[0].1["payload"]["code"]), (1, &json!("E_TIMEOUT")));
    assert_eq!(mail(&bob, "agent.bob").await, []);
    world.end().await;
}

#[tokio::test]
async fn a_task_to_a_channel_waits_for_one_decision() {
    let (world, ada, bob) = two().await;
    let (eve, mallory) = (person(&world, "human.eve").await, world.agent("agent.mallory").await);
    for (client, who) in [(&bob, "agent.bob"), (&mallory, "agent.mallory")] {
        client.put(&format!("/aee/buses/bus.ops/subscriptions/{who}"), json!({})).await.ok();
    }
    for id in ["envelope-1", "envelope-2"] {
        ada.post("/aee/envelopes", asked(&world, id, ("agent.ada", "bus.ops"))).await.is(202);
    }
    let list = eve.get("/aee/approvals?limit=1").await.ok();
    assert_eq!(list.as_array().unwrap().len(), 1);
    assert_eq!(list[0]["respondents"], json!(["agent.bob", "agent.mallory"]));
    assert_eq!(decide(&eve, "envelope-1", "approve").await.ok()["delivered"], 2);
    decide(&eve, "envelope-2", "decline").await.ok();
    assert_eq!((mail(&bob, "agent.bob").await.len(), mail(&mallory, "agent.mallory").await.len()), (1, 1));
    assert_eq!(mail(&ada, "agent.ada").await.len(), 1, "one error, however many were to do it");
    world.pass(60).await;
    assert_eq!(mail(&ada, "agent.ada").await.len(), 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_decide_one_does() {
    let (world, ada, bob) = two().await;
    let eve = person(&world, "human.eve").await;
    ada.post("/aee/envelopes", asked(&world, "envelope-1", ("agent.ada", "agent.bob"))).await.is(202);
    let said = (0..12).map(|n| decide(&eve, "envelope-1", if n % 2 == 0 { "approve" } else { "decline" }));
    let replies = futures_util::future::join_all(said).await;
    let won: Vec<Value> = replies.iter().filter(|one| one.status == 200).map(Reply::json).collect();
    assert_eq!(won.len(), 1, "{:?}", replies.iter().map(|one| one.status).collect::<Vec<_>>());
    assert!(replies.iter().all(|one| one.status == 200 || one.status == 409));
    let approved = usize::from(won[0]["decision"] == "approve");
    assert_eq!(
        (mail(&bob, "agent.bob").await.len(), mail(&ada, "agent.ada").await.len()),
        (approved, 1 - approved)
    );
    world.pass(60).await;
    world.end().await;
}

#[tokio::test]
async fn nobodys_flood_hides_what_others_ask_for() {
    let (world, ada, bob) = two().await;
    let eve = person(&world, "human.eve").await;
    let forever = |id: &str, from: &str| {
        with(
            task_envelope(&world, id, (from, "agent.bob")),
            json!({ "requires": { "human_approval": true } }),
        )
    };
    for n in 1..=5 {
        ada.post("/aee/envelopes", forever(&format!("envelope-a{n}"), "agent.ada")).await.is(202);
    }
    world.clock.advance(1);
    let receipt = bob.post("/aee/envelopes", forever("envelope-b1", "agent.bob")).await.is(202);
    assert_eq!(receipt["deadline"], "2026-11-22T08:00:01.000000Z", "what names no time has the longest");
    let page = async |query: &str| -> Vec<String> {
        let list = eve.get(&format!("/aee/approvals?limit=2{query}")).await.ok();
        list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(page("").await, ["envelope-a1", "envelope-b1"]);
    assert_eq!(page("&after=envelope-b1").await, ["envelope-a2", "envelope-a3"]);
    assert_eq!(page("&after=envelope-a3").await, ["envelope-a4", "envelope-a5"]);
    assert_eq!(page("&after=envelope-a5").await, [] as [&str; 0]);
    for id in ["envelope-a1", "envelope-b1"] {
        decide(&eve, id, "decline").await.ok();
    }
    assert_eq!(page("&after=envelope-a1").await, ["envelope-a2", "envelope-a3"]);
    world.end().await;
}
