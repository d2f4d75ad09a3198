//! Operations that share a transaction: each finds what the ones before it have changed, and what they write is as if each
//! had written alone. And how dependents are looked up.

use futures_util::future::join_all;
use sqlx::{Connection as _, Row as _};

use super::{act, complete, intent, now, status, task};
use entente_harness::{World, json};

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_any_text_are_stored_as_they_are() {
    let world = World::start().await;
    let any = world.any();
    let intent = intent(&any).await;
    let texts = json!(["a,b", "{c}", "NULL", "\"d\\", " e ", "ä\n'"]);
    let id = task(&any, &intent, json!({})).await;
    act(&any, &id, "claim", json!({})).await;
    let done = act(&any, &id, "complete", json!({ "artifacts": texts, "output": { "x": "\"\\" } })).await;
    assert_eq!((&done["artifacts"], &done["output"]), (&texts, &json!({ "x": "\"\\" })));
    assert_eq!(now(&any, &id).await, done);
    let names = json!(["a,b", "{c}", "NULL", "\"d\\"]);
    let needy = task(&any, &intent, json!({ "capabilities_required": names })).await;
    assert_eq!(now(&any, &needy).await["capabilities_required"], names);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_one_intent_at_once_find_each_others_changes() {
    let world = World::start().await;
    let any = world.any().patient();
    let home = intent(&any).await;
    let first = join_all((0..24).map(|_| task(&any, &home, json!({})))).await;
    let last = task(&any, &home, json!({ "depends_on": first })).await;
    let (leases, costs) = (format!("/intents/{home}/leases"), format!("/intents/{home}/costs"));
    let each = first.iter().enumerate().map(|(n, id)| {
        let (any, leases, costs, home) = (any.clone(), leases.clone(), costs.clone(), home.clone());
        async move {
            // One of each pair of scopes is free, and the other one overlaps.
            let scope = json!({ "scope": format!("s{}", n / 2), "duration_seconds": 60 });
            let cost = json!({ "cost_type": "tokens", "amount": "0.5", "unit": "USD" });
            let (_, lease, cost, made) = tokio::join!(
                complete(&any, id),
                any.post(&leases, scope),
                any.post(&costs, cost),
                any.post("/intents", json!({ "title": "part", "parent_intent_id": home })),
            );
            cost.ok();
            assert_eq!(made.ok()["parent_intent_id"], home.as_str());
            usize::from(lease.status < 300)
        }
    });
    let held: usize = join_all(each).await.into_iter().sum();
    assert_eq!(held, 12, "each scope has one holder");
    assert_eq!(status(&any, &last).await, "ready");
    let sums = any.get(&costs).await.ok()["summary"].clone();
    assert_eq!((&sums["total"], &sums["count"]), (&json!(12), &json!(24)));
    let events = any.get(&format!("/intents/{home}/events?limit=1000")).await.ok();
    let totals: Vec<String> = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["payload"]["about"] == "cost")
        .map(|event| event["payload"]["total"].to_string())
        .collect();
    let mut different = totals.clone();
    different.sort();
    different.dedup();
    assert_eq!(
        (totals.len(), different.len()),
        (24, 24),
        "each event has the total after its own cost: {totals:?}"
    );
    world.end().await;
}

/// Returns the text of a query by its name.
fn query(name: &str) -> String {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let texts =
        std::fs::read_dir(dir).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let queries =
        texts.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap()["query"].clone());
    let mut queries = queries.map(|query| query.as_str().unwrap().to_owned());
    queries.find(|query| query.trim_start().starts_with(&format!("-- {name}\n"))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_are_looked_up_by_what_they_depend_on() {
    let world = World::start().await;
    let mut connection = world.ctx().pool.detached().await.unwrap();
    let none = "'00000000-0000-0000-0000-000000000000'";
    for (name, arguments) in [
        ("tasks::followers", format!("{none}, ARRAY[{none}::uuid], ARRAY['x']")),
        ("tasks::following", format!("ARRAY[{none}::uuid], ARRAY[{none}::uuid], ARRAY['x']")),
        ("tasks::waiting_for", format!("ARRAY[{none}::uuid]")),
        ("tasks::blocks", format!("ARRAY[{none}::uuid]")),
    ] {
        let prepared = format!("DEALLOCATE ALL; PREPARE looked AS {}", query(name));
        sqlx::raw_sql(sqlx::AssertSqlSafe(prepared)).execute(&mut connection).await.unwrap();
        let explain = format!("EXPLAIN EXECUTE looked ({arguments})");
        let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("tasks_with_dependencies"), "{name}: {plan}");
        for walked in ["tasks_open", "tasks_by_intent", "tasks_pkey", "Seq Scan"] {
            assert!(!plan.contains(walked), "{name} walks {walked}: {plan}");
        }
    }
    connection.close().await.unwrap();
    world.end().await;
}
