//! Automatic ends in agents' memory: by expiry, with the task, with the intent, and by eviction.

use super::{ask, at, changes, intent, keep, told};
use entente_harness::tasks::task;
use entente_harness::{Client, Value, World, ids, json};

async fn finish(client: &Client, task: &str) {
    client.post(&format!("/tasks/{task}/claim"), json!({})).await.is(200);
    client.post(&format!("/tasks/{task}/complete"), json!({})).await.is(200);
}

/// Returns the keys of an agent's current entries, sorted.
async fn keys(client: &Client, agent: &str, query: &str) -> Vec<String> {
    let list = client.get(&format!("/agents/{agent}/memory?limit=1000{query}")).await.is(200);
    let mut keys: Vec<String> =
        list.as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_gone_the_instant_it_is() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (home, other) = (intent(&ada, None).await, intent(&ada, None).await);
    let brief = keep(&ada, "brief", json!({ "ttl": "PT10S", "scope": { "intent_id": home } })).await;
    let until = keep(&ada, "until", json!({ "expires_at": "2026-11-21T08:00:10Z" })).await;
    keep(&ada, "stays", json!({})).await;
    world.clock.advance(9);
    assert_eq!(keys(&ada, "agent.ada", "").await, ["brief", "stays", "until"]);
    world.clock.advance(1);
    // No sweep has run.
    for entry in [&brief, &until] {
        ada.get(&at(entry)).await.refused(404, "not_found");
        ada.seen(&json!(1)).patch(&at(entry), json!({ "ttl": null })).await.refused(404, "not_found");
        ada.delete(&at(entry)).await.refused(404, "not_found");
        ada.get(&format!("{}/versions", at(entry))).await.refused(404, "not_found");
    }
    assert_eq!(keys(&ada, "agent.ada", "").await, ["stays"]);
    assert_eq!(keys(&ada, "agent.ada", "&q=brief").await, Vec::<String>::new());
    assert_eq!(ada.get(&format!("/intents/{home}/memory")).await.is(200), json!([]));
    // Its key is available at once, even for an entry on another intent.
    keep(&ada, "brief", json!({ "scope": { "intent_id": other } })).await;
    let log: Vec<String> = told(&ada, &home).await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(log, ["memory.created", "memory.expired"]);
    world.sweep().await;
    let last = changes(&ada, "agent.ada").await.pop().unwrap();
    assert_eq!(last, ("expired".to_owned(), "until".to_owned()));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn working_memory_ends_with_its_task() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, None).await;
    let (one, two) = (task(&ada, &home, json!({})).await, task(&ada, &home, json!({})).await);
    let policy = json!({ "memory_policy": { "archive_on_completion": false } });
    let gone = task(&ada, &home, policy).await;
    let work = |task: &str| json!({ "memory_type": "working", "scope": { "task_id": task } });
    let entry = keep(&ada, "one", work(&one)).await;
    assert_eq!(entry["scope"], json!({ "task_id": one, "intent_id": home }));
    keep(&ada, "two", work(&two)).await;
    keep(&ada, "gone", work(&gone)).await;
    keep(&ada, "what happened", json!({ "scope": { "task_id": one } })).await;
    finish(&ada, &one).await;
    finish(&ada, &gone).await;
    assert_eq!(keys(&ada, "agent.ada", "").await, ["two", "what happened"]);
    assert_eq!(keys(&ada, "agent.ada", &format!("&task_id={two}")).await, ["two"]);
    assert_eq!(keys(&ada, "agent.ada", "&archived=true").await, ["one"]);
    // It can be read for thirty days, but not changed.
    let archived = ada.get(&at(&entry)).await.is(200);
    assert_eq!(archived["archived_at"], "2026-11-21T08:00:00.000000Z");
    assert_eq!(archived["expires_at"], "2026-12-21T08:00:00.000000Z");
    let refused = ada.seen(&json!(1)).patch(&at(&entry), json!({ "pinned": true })).await;
    refused.refused(409, "invalid_transition");
    // Its key is available, and the task accepts no more entries.
    keep(&ada, "one", json!({})).await;
    ada.post("/memory", ask("late", work(&one))).await.refused(409, "invalid_transition");
    let other = intent(&ada, None).await;
    let both = json!({ "scope": { "task_id": two, "intent_id": other } });
    ada.post("/memory", ask("both", both)).await.refused(404, "not_found");
    let log = told(&ada, &home).await;
    let archived: Vec<&Value> =
        log.iter().filter(|(kind, _)| kind == "memory.archived").map(|(_, payload)| payload).collect();
    assert_eq!(
        archived,
        [&json!({ "task_id": one, "entries": 1 }), &json!({ "task_id": gone, "entries": 1 })]
    );
    world.pass(30 * 24 * 3600).await;
    ada.get(&at(&entry)).await.refused(404, "not_found");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn working_memory_ends_with_its_intent() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    let home = intent(&ada, None).await;
    let scope = json!({ "memory_type": "working", "scope": { "intent_id": home } });
    keep(&ada, "a", scope.clone()).await;
    keep(&bob, "b", scope.clone()).await;
    let mut hidden = scope.clone();
    hidden["sensitivity"] = json!("restricted");
    keep(&bob, "hidden", hidden).await;
    keep(&bob, "known", json!({ "memory_type": "semantic", "scope": { "intent_id": home } })).await;
    keep(&bob, "own", json!({ "memory_type": "working" })).await;
    let done = json!({ "status": "completed" });
    ada.seen(&json!(1)).post(&format!("/intents/{home}/status"), done).await.ok();
    assert_eq!(keys(&ada, "agent.ada", "").await, Vec::<String>::new());
    assert_eq!(keys(&bob, "agent.bob", "").await, ["known", "own"]);
    let archived = ada.get(&format!("/intents/{home}/memory?archived=true")).await.is(200);
    assert_eq!(ids(&archived).len(), 2, "what is restricted stays out of sight");
    // The log does not reveal the number of restricted entries either.
    assert_eq!(told(&ada, &home).await.last().unwrap().1, json!({ "task_id": null, "entries": 2 }));
    ada.post("/memory", ask("late", scope)).await.refused(409, "intent_resolved");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_least_used_makes_room() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let (home, other) = (intent(&ada, None).await, intent(&ada, None).await);
    let limits = json!({ "memory_policy": { "max_entries": 3, "max_total_size_kb": 60 } });
    let work = task(&ada, &home, limits).await;
    let more = |more: Value| {
        let mut all = json!({ "memory_type": "working", "scope": { "task_id": work } });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let first = keep(&ada, "first", more(json!({}))).await;
    world.clock.advance(100);
    keep(&ada, "second", more(json!({}))).await;
    keep(&ada, "elsewhere", json!({ "scope": { "intent_id": other } })).await;
    world.clock.advance(100);
    keep(&ada, "low", more(json!({ "priority": "low" }))).await;
    world.clock.advance(100);
    // A read counts as a use.
    ada.get(&at(&first)).await.is(200);
    world.clock.advance(100);
    let fourth = keep(&ada, "fourth", more(json!({ "pinned": true }))).await;
    assert_eq!(fourth["evicted"][0]["key"], "low", "what is wanted less goes first: {fourth}");
    let fifth = keep(&ada, "fifth", more(json!({ "pinned": true }))).await;
    assert_eq!(fifth["evicted"][0]["key"], "second", "then what was used longest ago: {fifth}");
    assert_eq!(fifth["evicted"].as_array().unwrap().len(), 1);
    // Its size counts too.
    let large = json!({ "value": { "v": "x".repeat(61_400) }, "pinned": true });
    let sixth = ada.post("/memory", ask("sixth", more(large))).await;
    assert_eq!(sixth.refused(413, "too_large")["errors"][0]["loc"], json!(["body", "scope"]));
    let sixth = keep(&ada, "sixth", more(json!({ "pinned": true }))).await;
    assert_eq!(sixth["evicted"][0], json!({ "id": first["id"], "key": "first", "version": 1 }));
    // Pinned entries are never evicted.
    ada.post("/memory", ask("seventh", more(json!({})))).await.refused(413, "too_large");
    assert_eq!(keys(&ada, "agent.ada", "").await, ["elsewhere", "fifth", "fourth", "sixth"]);
    // Every eviction is logged.
    let gone: Vec<(String, String)> =
        changes(&ada, "agent.ada").await.into_iter().filter(|(what, _)| what == "evicted").collect();
    assert_eq!(gone.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>(), ["low", "second", "first"]);
    let told = told(&ada, &home).await;
    assert_eq!(told.iter().filter(|(kind, _)| kind == "memory.evicted").count(), 3);
    world.end().await;
}

/// Fills a namespace of an agent with old entries for an intent, `pinned` or not.
async fn fill(world: &World, agent: &str, intent: Option<&str>, pinned: bool) {
    let intent = intent.map(|id| id.parse::<entente_domain::ids::IntentId>().unwrap().uuid());
    let pool = &world.ctx().pool;
    sqlx::query(
        "INSERT INTO memory_entries (id, agent_id, namespace, key, memory_type, value, bytes, intent_id, tags, pinned,
             priority, version, created_at, updated_at, updated_by, used_at)
         SELECT gen_random_uuid(), $1, 'findings', 'old/' || n, 'episodic', '{}', 10, $2, '{}', $3, 1, 1, t, t, $1, t
         FROM generate_series(1, 1000) n, LATERAL (SELECT '2026-11-01T00:00:00Z'::timestamptz + n * interval '1 second' AS t) at",
    )
    .bind(agent)
    .bind(intent)
    .bind(pinned)
    .execute(pool)
    .await
    .unwrap();
    let store = sqlx::query("INSERT INTO memory_stores VALUES ($1, 1000, 10000, 0)").bind(agent);
    store.execute(pool).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_namespace_lets_the_oldest_go() {
    let world = World::start().await;
    let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
    // The lock of the evicted entry's intent is taken only then.
    let home = intent(&ada, None).await;
    fill(&world, "agent.ada", Some(&home), false).await;
    let made = keep(&ada, "new", json!({})).await;
    assert_eq!(made["evicted"][0]["key"], "old/1");
    assert_eq!(told(&ada, &home).await[0].1["key"], "old/1");
    // Concurrent writers: neither too many nor too few entries are evicted.
    let more = (0..10).map(|n| {
        let ada = &ada;
        async move { keep(ada, &format!("new/{n}"), json!({})).await }
    });
    for made in futures_util::future::join_all(more).await {
        assert_eq!(made["evicted"].as_array().unwrap().len(), 1, "{made}");
    }
    assert_eq!(keys(&ada, "agent.ada", "").await.len(), 1000);
    // Another namespace has room.
    assert_eq!(keep(&ada, "new", json!({ "namespace": "other" })).await["evicted"], json!([]));
    // If nothing can be evicted, a new entry is refused.
    fill(&world, "agent.bob", None, true).await;
    let full = bob.post("/memory", ask("new", json!({}))).await.refused(413, "too_large");
    assert!(full["message"].as_str().unwrap().contains("unpin"), "{full}");
    assert_eq!(keys(&bob, "agent.bob", "").await.len(), 1000);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helps_is_found_among_many_that_do_not() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, None).await;
    let work = task(&ada, &home, json!({ "memory_policy": { "max_entries": 2 } })).await;
    let of_task = |namespace: &str| json!({ "memory_type": "working", "scope": { "task_id": work }, "namespace": namespace });
    fill(&world, "agent.ada", None, false).await;
    // The task's limit evicts the task's own entries, in any namespace, although a thousand others are older.
    keep(&ada, "first", of_task("elsewhere")).await;
    world.clock.advance(1);
    keep(&ada, "second", of_task("elsewhere")).await;
    sqlx::query("DELETE FROM memory_entries WHERE key = 'old/1'").execute(&world.ctx().pool).await.unwrap();
    let third = keep(&ada, "third", of_task("findings")).await;
    assert_eq!(third["evicted"].as_array().unwrap().len(), 1, "{third}");
    assert_eq!(third["evicted"][0]["key"], "first");
    // The namespace's limit counts current entries, although there are hundreds of archived ones as well.
    let archive = "INSERT INTO memory_entries (id, agent_id, namespace, key, memory_type, value, bytes, tags, pinned, priority,
             version, created_at, updated_at, updated_by, used_at, archived_at)
         SELECT gen_random_uuid(), agent_id, 'findings', key, 'working', '{}', 10, '{}', false, 1, 1, created_at, created_at,
             agent_id, created_at, created_at FROM memory_entries WHERE key LIKE 'old/%' LIMIT 300";
    sqlx::query(archive).execute(&world.ctx().pool).await.unwrap();
    let made = keep(&ada, "new", json!({})).await;
    assert_eq!(made["evicted"][0]["key"], "old/2", "{made}");
    // The agent's total limit is reached, mostly by archived entries in other namespaces.
    sqlx::query("UPDATE memory_stores SET entries = 10000").execute(&world.ctx().pool).await.unwrap();
    let made = keep(&ada, "new", json!({ "namespace": "third" })).await;
    assert_eq!(made["evicted"].as_array().unwrap().len(), 1, "{made}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_grows_within_its_tasks_room() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, None).await;
    let work = task(&ada, &home, json!({ "memory_policy": { "max_total_size_kb": 1 } })).await;
    let made =
        keep(&ada, "k", json!({ "memory_type": "working", "scope": { "task_id": work }, "value": {} })).await;
    let large = json!({ "value": { "v": "x".repeat(2_000) } });
    let refused = ada.seen(&json!(1)).patch(&at(&made), large).await.refused(413, "too_large");
    assert_eq!(refused["errors"][0]["loc"], json!(["body", "scope"]));
    ada.seen(&json!(1)).patch(&at(&made), json!({ "value": { "v": "x" } })).await.is(200);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_thousand_changes_are_kept() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    sqlx::query("INSERT INTO memory_stores VALUES ('agent.ada', 0, 0, 998)")
        .execute(&world.ctx().pool)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO memory_changes SELECT 'agent.ada', n, 'deleted', gen_random_uuid(), 'n', 'k', 'working', 1, 'agent.ada',
         now() FROM generate_series(1, 998) n",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    for n in 0..5 {
        keep(&ada, &n.to_string(), json!({})).await;
    }
    let list = ada.get("/agents/agent.ada/memory/changes?limit=1000").await.is(200);
    let numbers: Vec<i64> =
        list.as_array().unwrap().iter().map(|change| change["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (4..=1003).collect::<Vec<_>>());
    world.end().await;
}
