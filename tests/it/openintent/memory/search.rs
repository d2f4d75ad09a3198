//! Searches in agents' memory: by namespace, key, tags and words, each with its index.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{intent, keep};
use entente_harness::{Client, World, json};

async fn found(client: &Client, query: &str) -> Vec<String> {
    let list = client.get(&format!("/agents/agent.ada/memory?{query}")).await.is(200);
    list.as_array().unwrap().iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_found_by_what_is_known_of_it() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, None).await;
    for (key, more) in [
        ("user/ada/theme", json!({ "value": { "is": "dark green" }, "tags": ["ui", "ada"] })),
        ("user/adam", json!({ "value": { "is": "somebody else" }, "tags": ["ada"] })),
        ("user/ada/mail", json!({ "value": { "to": ["Grün@example.org"], "n": 4711 }, "namespace": "post" })),
        ("green", json!({ "value": { "deep": { "er": ["a colour"] } }, "memory_type": "semantic" })),
        ("100%_done", json!({ "scope": { "intent_id": home }, "tags": ["ui"] })),
    ] {
        keep(&ada, key, more).await;
        world.clock.advance(1);
    }
    // Newest first.
    assert_eq!(found(&ada, "limit=2").await, ["100%_done", "green"]);
    assert_eq!(found(&ada, "limit=2&offset=3").await, ["user/adam", "user/ada/theme"]);
    assert_eq!(found(&ada, "namespace=post").await, ["user/ada/mail"]);
    assert_eq!(found(&ada, "memory_type=semantic").await, ["green"]);
    assert_eq!(found(&ada, "key=user/adam").await, ["user/adam"]);
    assert_eq!(found(&ada, "key=user/ada").await, Vec::<String>::new());
    assert_eq!(found(&ada, "key=user/adam&key_prefix=user/ada").await, ["user/adam"]);
    assert_eq!(found(&ada, "key=user/adam&key_prefix=post").await, Vec::<String>::new());
    assert_eq!(found(&ada, "key_prefix=user/ada").await, ["user/ada/mail", "user/adam", "user/ada/theme"]);
    assert_eq!(found(&ada, "key_prefix=user/ada/").await, ["user/ada/mail", "user/ada/theme"]);
    // Prefixes are no patterns: special characters stand for themselves.
    assert_eq!(found(&ada, "key_prefix=100%25_").await, ["100%_done"]);
    assert_eq!(found(&ada, "key_prefix=%25").await, Vec::<String>::new());
    // All given tags must match.
    assert_eq!(found(&ada, "tags=ui").await, ["100%_done", "user/ada/theme"]);
    assert_eq!(found(&ada, "tags=ada,ui").await, ["user/ada/theme"]);
    assert_eq!(found(&ada, "tags=none").await, Vec::<String>::new());
    // Words: matches in the key rank higher; no language-specific stemming.
    assert_eq!(found(&ada, "q=green").await, ["green", "user/ada/theme"]);
    assert_eq!(found(&ada, "query=GREEN+dark").await, ["user/ada/theme"]);
    assert_eq!(found(&ada, "q=theme").await, ["user/ada/theme"]);
    assert_eq!(found(&ada, "q=4711").await, ["user/ada/mail"]);
    assert_eq!(found(&ada, "q=green+-dark").await, ["green"]);
    assert_eq!(found(&ada, "q=green&tags=ui").await, ["user/ada/theme"]);
    assert_eq!(found(&ada, "q=ada&namespace=post").await, ["user/ada/mail"]);
    for nothing in ["%27", "%22", "%26%26", "!!", "(", ":*", "%25"] {
        assert_eq!(found(&ada, &format!("q={nothing}")).await, Vec::<String>::new(), "{nothing}");
    }
    world.end().await;
}

/// Returns the number of scans of an index.
async fn scans(world: &World, index: &str) -> i64 {
    sqlx::query_scalar("SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1")
        .bind(index)
        .fetch_one(&world.ctx().pool)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_search_has_its_index() {
    let world = World::start().await;
    let ada = world.agent("agent.ada").await;
    let home = intent(&ada, None).await;
    keep(
        &ada,
        "needle/1",
        json!({ "value": { "is": "haystack" }, "tags": ["rare"], "scope": { "intent_id": home } }),
    )
    .await;
    // Enough rows to make a full scan the wrong plan.
    sqlx::query(
        "INSERT INTO memory_entries (id, agent_id, namespace, key, memory_type, value, bytes, tags, pinned, priority,
             version, created_at, updated_at, updated_by, used_at)
         SELECT gen_random_uuid(), CASE WHEN n % 4 = 0 THEN 'agent.ada' ELSE 'agent.' || n % 40 END, 'n' || n % 7, 'k/' || n,
                'episodic', '{\"is\":\"number ' || n || '\"}', 10, '{usual}', false, 1, 1, t, t, 'agent.ada', t
         FROM generate_series(1, 20000) n, LATERAL (SELECT '2026-11-01T00:00:00Z'::timestamptz + n * interval '1 second' AS t) at",
    )
    .execute(&world.ctx().pool)
    .await
    .unwrap();
    sqlx::query("ANALYZE memory_entries").execute(&world.ctx().pool).await.unwrap();
    let mut expected: BTreeMap<&str, i64> = BTreeMap::new();
    for (index, path) in [
        ("memory_by_agent", "/agents/agent.ada/memory"),
        ("memory_by_key", "/agents/agent.ada/memory?memory_type=episodic"),
        ("memory_by_key", "/agents/agent.ada/memory?namespace=findings&key=needle/1"),
        ("memory_by_key", "/agents/agent.ada/memory?namespace=findings&key_prefix=needle"),
        ("memory_by_tags", "/agents/agent.ada/memory?tags=rare"),
        ("memory_by_words", "/agents/agent.ada/memory?q=haystack"),
        ("memory_by_intent", &format!("/intents/{home}/memory")),
    ] {
        if !expected.contains_key(index) {
            expected.insert(index, scans(&world, index).await);
        }
        for _ in 0..8 {
            let list = ada.get(path).await.is(200);
            assert!(list.as_array().unwrap().iter().any(|entry| entry["key"] == "needle/1"), "{path}");
        }
        *expected.get_mut(index).unwrap() += 8;
    }
    // PostgreSQL publishes the counts within seconds.
    let mut waited = 0;
    for (index, times) in expected {
        while scans(&world, index).await < times {
            waited += 1;
            assert!(waited < 200, "{index} was read {} times, not {times}", scans(&world, index).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    world.end().await;
}
