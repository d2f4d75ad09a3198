//! Entries of every kind: messages to roles and to everybody, mail, ends of jobs, decisions, tasks and assignments; and the
//! tool and the command.

use super::{each, follow, numbers, open, read, seen};
use entente_harness::desk::Desk;
use entente_harness::envelopes::{task_envelope, with};
use entente_harness::jobs::Hand;
use entente_harness::mcp::{Era, Mcp};
use entente_harness::moments;
use entente_harness::tasks;
use entente_harness::{World, json, send, talk};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_those_whom_it_addresses() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (carl, dora) = (world.agent("agent.carl").await, world.agent("agent.dora").await);
    carl.post("/agents/register", json!({ "agent_id": "agent.carl", "role_id": "clerk" })).await.ok();
    let (intent, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    for (agent, id) in
        [(&ada, "agent.ada"), (&bob, "agent.bob"), (&carl, "agent.carl"), (&dora, "agent.dora")]
    {
        open(agent, id, json!({})).await;
    }
    // Dora is assigned to the intent; carl may read it like everybody, and takes no part.
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.dora" })).await.ok();
    let m = |to, n: u64| json!({ "sender": "agent.ada", "to": to, "payload": { "n": n } });
    send(&ada, &channel, m(json!("role:clerk"), 1)).await;
    send(&ada, &channel, m(json!(null), 2)).await;
    send(&ada, &channel, m(json!("*"), 3)).await;
    let mut request = m(json!("agent.bob"), 4);
    request["message_type"] = json!("request");
    let asked = send(&ada, &channel, request).await;
    let reply = json!({ "sender": "agent.bob", "payload": { "n": 5 } });
    bob.post(&format!("/channels/{channel}/messages/{}/reply", asked["id"].as_str().unwrap()), reply)
        .await
        .is(201);
    follow(&world).await;
    assert_eq!(numbers(&read(&carl, "agent.carl", "?expand=true").await), [1]);
    let bobs = read(&bob, "agent.bob", "?expand=true").await;
    assert_eq!(
        (numbers(&bobs), each(&bobs, "attention")),
        (vec![2, 3, 4], vec![json!("digest"), json!("digest"), json!("wake")])
    );
    let doras = read(&dora, "agent.dora", "?expand=true").await;
    assert_eq!(each(&doras, "what"), ["intent_assigned", "notify", "notify"]);
    let adas = read(&ada, "agent.ada", "").await;
    assert_eq!(
        (numbers(&adas), each(&adas, "what"), each(&adas, "attention")),
        (vec![5], vec![json!("response")], vec![json!("wake")])
    );
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_has_the_level_of_its_priority() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.a").await, world.agent("agent.b").await);
    let envelope = |n: u32, priority: &str| {
        let id = format!("01JFB2R1JZKQ9V3K8W8Y9W1F{n:02}");
        with(task_envelope(&world, &id, ("agent.a", "agent.b")), json!({ "priority": priority }))
    };
    ada.post("/aee/envelopes", envelope(1, "urgent")).await.is(202);
    open(&bob, "agent.b", json!({})).await;
    for (n, priority) in [(2, "urgent"), (3, "high"), (4, "normal"), (5, "low")] {
        ada.post("/aee/envelopes", envelope(n, priority)).await.is(202);
    }
    follow(&world).await;
    let page = read(&bob, "agent.b", "?expand=true").await;
    assert_eq!(each(&page, "attention"), ["wake", "wake", "next", "digest"], "{page}");
    let first = &page["entries"][0];
    assert_eq!(
        (&first["kind"], &first["what"], &first["sender"]),
        (&json!("mail"), &json!("task"), &json!("agent.a"))
    );
    assert_eq!(first["reference"], "01JFB2R1JZKQ9V3K8W8Y9W1F02");
    follow(&world).await;
    assert_eq!(read(&bob, "agent.b", "").await["newest"], 4);
    ada.post("/aee/envelopes", envelope(6, "normal")).await.is(202);
    follow(&world).await;
    assert_eq!(each(&read(&bob, "agent.b", "?since=4").await, "place"), [5]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_tells_its_submitter() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let hand = Hand::of(&bob, "scan@1.0.0").await;
    let intent = tasks::intent(&ada).await;
    open(&ada, "agent.ada", json!({})).await;
    for body in [json!({ "agent": "scan" }), json!({ "agent": "scan", "intent_id": intent })] {
        let submitted = ada.post("/jobs", body.clone()).await.is(201);
        let job = hand.one().await;
        hand.events(&job, json!([{ "kind": "log", "body": { "level": "info", "message": "at it" } }]))
            .await
            .ok();
        hand.tell(&job, "result", json!({ "result": 1 })).await.ok();
        follow(&world).await;
        let page = read(&ada, "agent.ada", "").await;
        assert_eq!(each(&page, "kind"), ["job"], "{body}");
        let entry = &page["entries"][0];
        assert_eq!((&entry["what"], &entry["reference"]), (&json!("success"), &submitted["job_id"]));
        assert_eq!((&entry["attention"], &entry["sender"]), (&json!("next"), &json!("scan@1.0.0")));
        seen(&ada, "agent.ada", "default", &page["next_place"]).await;
    }
    assert_eq!(read(&bob, "agent.bob", "").await["newest"], 0, "the worker's agent submitted nothing");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_wakes_whoever_asked() {
    let world = World::start().await;
    let (agent, human) = (world.agent("agent.a").await, world.human("human.ada").await);
    open(&agent, "agent.a", json!({})).await;
    let asked = moments::ask(&agent, json!({})).await;
    follow(&world).await;
    assert_eq!(read(&agent, "agent.a", "").await["newest"], 0, "its own question is no news");
    moments::resolve(&human, &asked, moments::option(0)).await.ok();
    follow(&world).await;
    let page = read(&agent, "agent.a", "").await;
    let entry = &page["entries"][0];
    assert_eq!(
        (&entry["kind"], &entry["what"], &entry["attention"]),
        (&json!("decision"), &json!("resolved"), &json!("wake"))
    );
    assert_eq!(entry["reference"], asked["id"]);
    assert_eq!(page["newest"], 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_given_to_an_agent_is_in_its_inbox() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let intent = tasks::intent(&ada).await;
    open(&bob, "agent.bob", json!({})).await;
    ada.post(&format!("/intents/{intent}/agents"), json!({ "agent_id": "agent.bob" })).await.ok();
    let task = tasks::task(&ada, &intent, json!({})).await;
    tasks::act(&ada, &task, "delegate", json!({ "to": "agent.bob" })).await;
    follow(&world).await;
    let page = read(&bob, "agent.bob", "").await;
    assert_eq!(each(&page, "kind"), vec![json!("task"); page["entries"].as_array().unwrap().len()]);
    assert_eq!(page["entries"][0]["what"], "intent_assigned");
    assert_eq!(
        (&page["entries"][1]["what"], &page["entries"][1]["reference"]),
        (&json!("delegated"), &json!(task))
    );
    assert_eq!(page["entries"][1]["attention"], "next");
    let before = page["newest"].clone();
    // What it does itself is no news.
    tasks::act(&bob, &task, "claim", json!({})).await;
    follow(&world).await;
    assert_eq!(read(&bob, "agent.bob", "").await["newest"], before);
    // Without access to the intent, tasks are withheld.
    ada.delete(&format!("/intents/{intent}/agents/agent.bob")).await;
    ada.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
    let page = read(&bob, "agent.bob", "").await;
    assert!(page["entries"].as_array().unwrap().iter().all(|entry| entry["withheld"] == true), "{page}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_reads_and_marks_in_one_call() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    let mcp = Mcp::new(&bob, Era::Stateless);
    assert_eq!(mcp.ok("inbox", json!({})).await["entries"], json!([]));
    send(&ada, &channel, super::to_bob("request", 1)).await;
    follow(&world).await;
    let page = mcp.ok("inbox", json!({ "wait_s": 5, "reader": "s1" })).await;
    assert_eq!((numbers(&page), &page["next_place"]), (vec![1], &json!(1)));
    send(&ada, &channel, super::to_bob("request", 2)).await;
    follow(&world).await;
    let page = mcp.ok("inbox", json!({ "seen": 1, "reader": "s1", "attention": "wake" })).await;
    assert_eq!((numbers(&page), &page["missed"]), (vec![2], &json!(0)));
    mcp.refused("inbox", json!({ "seen": 9 }), "unprocessable").await;
    mcp.refused("inbox", json!({ "attention": "loud" }), "invalid_request").await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_entries_and_marks_them() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let (_, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
    open(&bob, "agent.bob", json!({})).await;
    send(&ada, &channel, super::to_bob("request", 1)).await;
    send(
        &ada,
        &channel,
        json!({ "sender": "agent.ada", "message_type": "broadcast", "payload": { "n": 2 } }),
    )
    .await;
    follow(&world).await;
    let desk = Desk::of(&world);
    let run = async |arguments: &[&str]| {
        let mut command = desk.command("key-of-agent.bob", arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = run(&["inbox", "read", "--seen"]).await;
    assert!(shown.contains("wake") && shown.contains(r#"{"n":1}"#), "{shown}");
    assert!(shown.contains("digest: 1 more") && shown.contains("next: 2"), "{shown}");
    assert_eq!(run(&["inbox", "read"]).await, "next: 2\n");
    assert!(run(&["inbox", "seen", "1", "--reader", "other"]).await.contains("other"));
    assert!(run(&["inbox", "set", r#"{"may_wake": []}"#]).await.contains("agent.bob"));
    assert!(run(&["inbox", "show"]).await.contains("may_wake"));
    run(&["inbox", "close"]).await;
    bob.get("/agents/agent.bob/inbox/settings").await.refused(404, "not_found");
    world.end().await;
}
