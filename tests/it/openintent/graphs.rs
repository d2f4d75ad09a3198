//! Graphs of intents (RFC-0002): children, dependencies, readiness, and that there are no cycles.
//! `graphs/racing.rs` covers races.

mod racing;

use entente_harness::{BundleFile, Client, Setup, Sse, Value, World, ids, json};

/// Creates an intent and returns its id.
pub async fn intent(client: &Client, title: &str, more: Value) -> String {
    let mut ask = json!({ "title": title });
    ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/intents", ask).await.is(200)["id"].as_str().unwrap().to_owned()
}

/// Creates a child of an intent and returns its id.
async fn part(client: &Client, parent: &str, title: &str, more: Value) -> String {
    intent(client, title, {
        let mut more = more;
        more["parent_intent_id"] = json!(parent);
        more
    })
    .await
}

/// Closes an intent to all but its creator.
pub async fn shut(client: &Client, intent: &str) {
    client.put(&format!("/intents/{intent}/acl"), json!({ "default_policy": "closed" })).await.ok();
}

/// Moves an intent to a status.
pub async fn moved(client: &Client, intent: &str, status: &str) {
    let path = format!("/intents/{intent}");
    let version = client.get(&path).await.ok()["version"].clone();
    client.seen(&version).post(&format!("{path}/status"), json!({ "status": status })).await.ok();
}

/// Returns the ids in a list of an intent.
async fn listed(client: &Client, intent: &str, list: &str) -> Vec<String> {
    ids(&client.get(&format!("/intents/{intent}/{list}")).await.is(200)[list])
}

/// Makes one intent depend on another.
async fn depend(client: &Client, intent: &str, on: &str) -> entente_harness::Reply {
    let path = format!("/intents/{intent}");
    let version = client.get(&path).await.ok()["version"].clone();
    client.seen(&version).post(&format!("{path}/dependencies"), json!({ "dependency_id": on })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_made_under_its_whole() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    world.clock.advance(1);
    let whole = intent(&ada, "whole", json!({})).await;
    world.clock.advance(1);
    let first = intent(&ada, "first", json!({})).await;
    let children = format!("/intents/{whole}/children");
    // As the SDK does it: the parent is in the path and in the body.
    let ask = json!({ "title": "part", "state": { "n": 1 }, "parent_intent_id": whole, "depends_on": [first, first] });
    let made = ada.once("k").post(&children, ask.clone()).await;
    assert_eq!(made.header("etag"), "\"1\"");
    let made = made.is(200);
    assert_eq!((&made["parent_intent_id"], &made["parent_id"]), (&json!(whole), &json!(whole)));
    assert_eq!((&made["depends_on"], &made["created_by"]), (&json!([first]), &json!("agent.ada")));
    assert_eq!(ada.once("k").post(&children, ask).await.is(200), made, "done once");
    world.clock.advance(1);
    let bare = ada.post(&children, json!({ "title": "bare" })).await.is(200);
    assert_eq!(bare["parent_intent_id"], json!(whole));
    assert_eq!(
        ids(&ada.get(&children).await.ok()["children"]),
        [&made["id"], &bare["id"]].map(|id| id.as_str().unwrap())
    );
    assert_eq!(listed(&ada, &first, "dependents").await, [made["id"].as_str().unwrap()]);
    let other = json!({ "title": "x", "parent_id": first });
    ada.post(&children, other).await.refused(422, "unprocessable");
    let nobody = "/intents/intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F/children";
    ada.post(nobody, json!({ "title": "x" })).await.refused(404, "not_found");
    ada.post("/intents/what/children", json!({ "title": "x" })).await.refused(404, "not_found");
    let unknown = json!({ "title": "x", "depends_on": ["intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"] });
    ada.post(&children, unknown).await.refused(422, "unprocessable");
    // Creating children requires admin access (RFC-0011).
    let read = json!({ "principal_id": "agent.bob", "permission": "write" });
    ada.post(&format!("/intents/{whole}/acl/entries"), read).await.ok();
    bob.post(&children, json!({ "title": "x" })).await.refused(403, "forbidden");
    assert_eq!(ids(&bob.get(&children).await.ok()["children"]).len(), 2);
    shut(&ada, &whole).await;
    bob.post(&children, json!({ "title": "x" })).await.refused(403, "access_closed");
    bob.get(&children).await.refused(403, "access_closed");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_are_walked_up_and_down_page_by_page() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    world.clock.advance(1);
    let root = intent(&ada, "root", json!({})).await;
    world.clock.advance(1);
    let left = part(&ada, &root, "left", json!({})).await;
    world.clock.advance(1);
    let right = part(&ada, &root, "right", json!({})).await;
    world.clock.advance(1);
    let leaf = part(&ada, &left, "leaf", json!({})).await;
    world.clock.advance(1);
    let twig = part(&ada, &leaf, "twig", json!({})).await;
    assert_eq!(listed(&ada, &root, "children").await, [&*left, &right]);
    assert_eq!(listed(&ada, &root, "descendants").await, [&*left, &right, &leaf, &twig]);
    assert_eq!(listed(&ada, &twig, "ancestors").await, [&*leaf, &left, &root], "the nearest first");
    assert_eq!(listed(&ada, &root, "ancestors").await, [""; 0]);
    assert_eq!(listed(&ada, &twig, "descendants").await, [""; 0]);
    for (of, list, all) in [
        (&root, "descendants", vec![&left, &right, &leaf, &twig]),
        (&twig, "ancestors", vec![&leaf, &left, &root]),
        (&root, "children", vec![&left, &right]),
    ] {
        let (mut after, mut seen) = (String::new(), Vec::new());
        loop {
            let page = ada.get(&format!("/intents/{of}/{list}?limit=1{after}")).await;
            seen.extend(ids(&page.is(200)[list]));
            let Some(next) = page.headers.get("entente-next-cursor") else { break };
            after = format!("&after={}", next.to_str().unwrap());
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), all, "{list}");
    }
    ada.get(&format!("/intents/{root}/children?after=what")).await.refused(422, "invalid_parameter");
    ada.get(&format!("/intents/{root}/children?limit=1001")).await.refused(422, "invalid_parameter");
    // Each list contains complete intents.
    let shown = ada.get(&format!("/intents/{root}/descendants")).await.ok()["descendants"][0].clone();
    assert_eq!(shown, ada.get(&format!("/intents/{left}")).await.ok());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_left_out_with_all_behind_it() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let bob = world.agent("agent.bob").await;
    world.clock.advance(1);
    let root = intent(&ada, "root", json!({})).await;
    world.clock.advance(1);
    let hidden = part(&ada, &root, "hidden", json!({})).await;
    world.clock.advance(1);
    let behind = part(&ada, &hidden, "behind", json!({})).await;
    world.clock.advance(1);
    let open = part(&ada, &root, "open", json!({ "depends_on": [hidden] })).await;
    shut(&ada, &hidden).await;
    assert_eq!(listed(&bob, &root, "children").await, [&*open]);
    assert_eq!(listed(&bob, &root, "descendants").await, [&*open]);
    assert_eq!(listed(&bob, &behind, "ancestors").await, [""; 0]);
    assert_eq!(listed(&bob, &open, "dependencies").await, [""; 0]);
    assert_eq!(listed(&ada, &open, "dependencies").await, [&*hidden]);
    let graph = bob.get(&format!("/intents/{root}/graph")).await.ok();
    assert_eq!(ids(&graph["nodes"]), [&*root, &open]);
    assert_eq!(graph["edges"], json!([{ "from": root, "to": open, "type": "parent" }]));
    assert_eq!(graph["aggregate_status"]["total"], 2);
    // It is blocked for every reader.
    assert_eq!(listed(&bob, &root, "blocked").await, [&*open]);
    assert_eq!(listed(&bob, &root, "ready").await, [""; 0]);
    depend(&bob, &root, &hidden).await.refused(404, "not_found");
    bob.get(&format!("/intents/{hidden}/dependents")).await.refused(403, "access_closed");
    // Its dependencies stay hidden from him, including that one was abandoned.
    moved(&ada, &hidden, "abandoned").await;
    for (who, lost) in [(&ada, true), (&bob, false)] {
        let why = who.get(&format!("/intents/{root}/blocked")).await.ok()["blocked"][0].clone();
        let (waits_for, gone) =
            if lost { (json!([]), json!([hidden])) } else { (json!([hidden]), json!([])) };
        assert_eq!((&why["waits_for"], &why["lost"]), (&waits_for, &gone));
    }
    moved(&ada, &hidden, "active").await;
    // With a grant he sees it, until the grant expires.
    let until =
        json!({ "principal_id": "agent.bob", "permission": "read", "expires_at": "2026-11-21T08:01:00Z" });
    ada.post(&format!("/intents/{hidden}/acl/entries"), until).await.ok();
    assert_eq!(listed(&bob, &root, "descendants").await, [&*hidden, &behind, &open]);
    world.clock.advance(60);
    assert_eq!(listed(&bob, &root, "descendants").await, [&*open]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dependencies_come_and_go_under_the_intents_version() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let first = intent(&ada, "first", json!({})).await;
    let second = intent(&ada, "second", json!({})).await;
    let path = format!("/intents/{second}/dependencies");
    let ask = json!({ "dependency_id": first });
    ada.post(&path, ask.clone()).await.refused(400, "if_match_required");
    let added = ada.seen(&json!(1)).once("k").post(&path, ask.clone()).await;
    assert_eq!(added.header("etag"), "\"2\"");
    let added = added.is(200);
    assert_eq!((&added["depends_on"], &added["version"]), (&json!([first]), &json!(2)));
    assert_eq!(ada.seen(&json!(1)).once("k").post(&path, ask.clone()).await.is(200), added, "done once");
    let stale = ada.seen(&json!(1)).post(&path, ask.clone()).await.refused(409, "version_conflict");
    assert_eq!(stale["current_version"], 2);
    ada.with("if-match", "\"2\"").post(&path, ask).await.refused(409, "already_exists");
    assert_eq!(ada.get(&format!("/intents/{second}")).await.ok(), added);
    assert_eq!(listed(&ada, &second, "dependencies").await, [&*first]);
    assert_eq!(listed(&ada, &first, "dependents").await, [&*second]);
    for wrong in ["intent_01J9ZK4T6Q8R2V5X7Y9B1C3D5F", "what", ""] {
        ada.seen(&json!(2)).post(&path, json!({ "dependency_id": wrong })).await.refused(404, "not_found");
        ada.seen(&json!(2)).delete(&format!("{path}/x{wrong}")).await.refused(404, "not_found");
    }
    ada.seen(&json!(2)).post(&path, json!({})).await.refused(422, "invalid_request");
    ada.delete(&format!("{path}/{first}")).await.refused(400, "if_match_required");
    ada.seen(&json!(1)).delete(&format!("{path}/{first}")).await.refused(409, "version_conflict");
    let gone = ada.seen(&json!(2)).delete(&format!("{path}/{first}")).await.is(200);
    assert_eq!((&gone["depends_on"], &gone["version"]), (&json!([]), &json!(3)));
    ada.seen(&json!(3)).delete(&format!("{path}/{first}")).await.refused(404, "not_found");
    assert_eq!(listed(&ada, &first, "dependents").await, [""; 0]);
    ada.seen(&json!(3)).post(&format!("/intents/{second}/state"), json!({ "state": { "n": 1 } })).await.ok();
    // The log records all of it, and replaying it yields the intent.
    let log = ada.get(&format!("/intents/{second}/events?event_type=dependency_added")).await.ok();
    assert_eq!(log[0]["payload"], json!({ "dependency_id": first, "version": 2 }));
    let log = ada.get(&format!("/intents/{second}/events?event_type=dependency_removed")).await.ok();
    assert_eq!(log[0]["payload"], json!({ "dependency_id": first, "version": 3 }));
    let report = BundleFile::of(&ada, &format!("/intents/{second}")).await.report();
    assert!(report.is_clean(), "{report:?}");
    // Adding dependencies requires write access.
    let bob = world.agent("agent.bob").await;
    let read = json!({ "principal_id": "agent.bob", "permission": "read" });
    ada.post(&format!("/intents/{second}/acl/entries"), read).await.ok();
    depend(&bob, &second, &first).await.refused(403, "forbidden");
    moved(&ada, &second, "completed").await;
    depend(&ada, &second, &first).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_itself_through_others() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let first = intent(&ada, "first", json!({})).await;
    let second = intent(&ada, "second", json!({ "depends_on": [first] })).await;
    let third = intent(&ada, "third", json!({ "depends_on": [second] })).await;
    for (from, to) in [(&first, &first), (&first, &second), (&first, &third), (&second, &third)] {
        let refused = depend(&ada, from, to).await.refused(400, "dependency_circle");
        assert_eq!(refused["errors"][0]["loc"], json!(["body", "dependency_id"]));
    }
    // Two paths to one intent are no cycle.
    depend(&ada, &third, &first).await.is(200);
    // A parent may depend on its children, or a child on its parent, but not both.
    let part = part(&ada, &first, "part", json!({})).await;
    depend(&ada, &first, &part).await.is(200);
    depend(&ada, &part, &first).await.refused(400, "dependency_circle");
    // A hidden cycle is refused too, without revealing it.
    let bob = world.agent("agent.bob").await;
    let begin = intent(&bob, "begin", json!({})).await;
    let middle = intent(&ada, "middle", json!({ "depends_on": [begin] })).await;
    let end = intent(&ada, "end", json!({ "depends_on": [middle] })).await;
    shut(&ada, &middle).await;
    let refused = depend(&bob, &begin, &end).await.refused(400, "dependency_circle");
    assert!(!refused.to_string().contains(&middle));
    // A removed dependency allows the opposite one.
    let path = format!("/intents/{second}/dependencies/{first}");
    ada.seen(&json!(1)).delete(&path).await.is(200);
    depend(&ada, &third, &part).await.is(200);
    depend(&ada, &first, &second).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ready_and_what_is_blocked_is_seen_at_once() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let root = intent(&ada, "root", json!({})).await;
    let first = part(&ada, &root, "first", json!({})).await;
    let elsewhere = intent(&ada, "elsewhere", json!({})).await;
    let second = part(&ada, &root, "second", json!({ "depends_on": [first, elsewhere] })).await;
    let third = part(&ada, &root, "third", json!({ "depends_on": [second] })).await;
    assert_eq!(listed(&ada, &root, "ready").await, [&*first]);
    assert_eq!(listed(&ada, &root, "blocked").await, [&*second, &third]);
    let why = ada.get(&format!("/intents/{root}/blocked?limit=1")).await;
    assert_eq!(why.header("entente-next-cursor"), second);
    let why = why.ok()["blocked"][0].clone();
    assert_eq!((&why["title"], &why["lost"]), (&json!("second"), &json!([])));
    assert_eq!(why["waits_for"], json!([first, elsewhere]));
    // A completed intent is neither.
    moved(&ada, &first, "completed").await;
    assert_eq!(listed(&ada, &root, "ready").await, [""; 0]);
    moved(&ada, &elsewhere, "abandoned").await;
    let why = ada.get(&format!("/intents/{root}/blocked")).await.ok()["blocked"][0].clone();
    assert_eq!(
        (&why["id"], &why["waits_for"], &why["lost"]),
        (&json!(second), &json!([]), &json!([elsewhere]))
    );
    // It is reopened and completed, or the dependency is removed.
    moved(&ada, &elsewhere, "completed").await;
    assert_eq!(listed(&ada, &root, "ready").await, [&*second]);
    moved(&ada, &elsewhere, "abandoned").await;
    ada.seen(&json!(1)).delete(&format!("/intents/{second}/dependencies/{elsewhere}")).await.is(200);
    assert_eq!(listed(&ada, &root, "ready").await, [&*second]);
    assert_eq!(listed(&ada, &root, "blocked").await, [&*third]);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_has_its_intents_and_the_lines_between_them() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    world.clock.advance(1);
    let above = intent(&ada, "above", json!({})).await;
    world.clock.advance(1);
    let root = part(&ada, &above, "root", json!({})).await;
    world.clock.advance(1);
    let elsewhere = intent(&ada, "elsewhere", json!({ "status": "active" })).await;
    world.clock.advance(1);
    let left = part(&ada, &root, "left", json!({})).await;
    world.clock.advance(1);
    let right = part(&ada, &root, "right", json!({ "depends_on": [left, elsewhere] })).await;
    moved(&ada, &left, "completed").await;
    let graph = ada.get(&format!("/intents/{root}/graph")).await.is(200);
    assert_eq!(graph["root_id"], json!(root));
    assert_eq!(ids(&graph["nodes"]), [&*root, &elsewhere, &left, &right]);
    let node = json!({
        "id": right, "title": "right", "status": "draft", "parent_id": root, "parent_intent_id": root,
        "depends_on": [left, elsewhere], "version": 1
    });
    assert_eq!(graph["nodes"][3], node);
    let edges = json!([
        { "from": root, "to": left, "type": "parent" },
        { "from": root, "to": right, "type": "parent" },
        { "from": left, "to": right, "type": "dependency" },
        { "from": elsewhere, "to": right, "type": "dependency" },
    ]);
    assert_eq!(graph["edges"], edges);
    let sums = json!({ "total": 4, "by_status": { "active": 1, "completed": 1, "draft": 2 }, "completion_percentage": 25 });
    assert_eq!(graph["aggregate_status"], sums);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_have_a_bottom_and_the_last_release_is_understood() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let root = intent(&ada, "root", json!({})).await;
    let mut lowest = root.clone();
    for _ in 1..100 {
        lowest = part(&ada, &lowest, "deeper", json!({})).await;
    }
    assert_eq!(listed(&ada, &lowest, "ancestors").await.len(), 99);
    let refused = ada.post(&format!("/intents/{lowest}/children"), json!({ "title": "x" })).await;
    assert_eq!(refused.refused(422, "unprocessable")["errors"][0]["type"], "too_deep");
    // An older release writes only the intent's own row; the dependency is found all the same.
    let pool = &world.ctx().pool;
    sqlx::query("INSERT INTO intents SELECT gen_random_uuid(), 'old', '', created_by, NULL, ARRAY[id, id], '{}', '{}', status,
                 0, 1, NULL, created_at, updated_at FROM intents WHERE parent_id IS NULL")
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(listed(&ada, &root, "dependents").await.len(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_hear_what_an_intent_waits_for() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let first = intent(&ada, "first", json!({})).await;
    let second = intent(&ada, "second", json!({})).await;
    let mut stream = Sse::open(&ada, &format!("/intents/{second}/subscribe")).await;
    let mut plain = Sse::open(&ada, &format!("/subscribe/intents/{second}")).await;
    depend(&ada, &second, &first).await.is(200);
    ada.seen(&json!(2)).post(&format!("/intents/{second}/state"), json!({ "state": { "n": 1 } })).await.ok();
    let heard = stream.next().await;
    assert_eq!((&*heard.name, &heard.data["payload"]["dependency_id"]), ("dependency_added", &json!(first)));
    assert_eq!(stream.next().await.name, "STATE_CHANGED");
    assert_eq!(plain.next().await.name, "dependency_added");
    let patched = plain.next().await;
    assert_eq!((&patched.data["depends_on"], &patched.data["version"]), (&json!([first]), &json!(3)));
    // A client that resumes gets it from the database.
    let mut late = Sse::resume(&ada, &format!("/subscribe/intents/{second}"), Some("0")).await;
    let patched = late.next_named("state_patched").await;
    assert_eq!((&patched.data["depends_on"], &patched.data["version"]), (&json!([first]), &json!(3)));
    world.end().await;
}
