//! Schedules of jobs, thresholds of budgets and limits of priority from the command line.

use super::{refused_with, told};
use entente_harness::jobs::Hand;
use entente_harness::keys::key;
use entente_harness::{World, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_submits_jobs_and_is_looked_after() {
    let world = World::start().await;
    world.agent("agent.ada").await;
    let ada = "key-of-agent.ada";
    Hand::of(&world.any(), "echo@1").await;
    let create = [
        "job",
        "schedule",
        "create",
        "nightly",
        "--cron",
        "30 9 * * *",
        "--time-zone",
        "Europe/Berlin",
        "--skip-while-open",
        "--agent",
        "echo",
        "--input",
        "{\"day\": \"{{ today }}\"}",
        "--budget",
        "USD:1.00",
        "--label",
        "team=red",
        "--retry",
        "{\"max_attempts\": 2}",
    ];
    let made = told(&world, ada, &create).await;
    let id = made["trigger_id"].as_str().unwrap().to_owned();
    assert_eq!(made["deduplication"], "skip");
    let on = |verb: &'static str| vec!["job", "schedule", verb, &id];
    assert_eq!(told(&world, ada, &on("disable")).await["enabled"], false);
    world.pass(30 * 60).await;
    world.carry().await;
    assert_eq!(told(&world, ada, &on("enable")).await["enabled"], true);
    world.pass(24 * 3_600).await;
    world.carry().await;
    let hand = Hand::again(&world.any(), "echo@1").await;
    let claimed = hand.one().await;
    assert_eq!(
        (&claimed["input"], &claimed["budget"]),
        (&json!({ "day": "2026-11-22" }), &json!({ "USD": 1 }))
    );
    let past = told(&world, ada, &on("history")).await;
    assert_eq!((past.as_array().unwrap().len(), &past[0]["job_id"]), (1, &claimed["job_id"]));
    let listed = told(&world, ada, &["job", "schedule", "list"]).await;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["fire_count"]), (1, &json!(1)));
    told(&world, ada, &on("fire")).await;
    assert_eq!(told(&world, ada, &on("delete")).await["status"], "deleted");
    assert_eq!(told(&world, ada, &["job", "schedule", "list"]).await, json!([]));
    let none = refused_with(&world, ada, &["job", "schedule", "create", "never", "--agent", "echo"]).await;
    assert!(none.contains("--cron"), "{none}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_restrict_models_and_tools() {
    let world = World::start().await;
    let admin =
        key(&world, &world.admin().await, "service.operator", json!({ "scopes": ["admin"] })).await.secret;
    let create = [
        "budget",
        "create",
        "system",
        "10",
        "USD",
        "--models",
        "80=*-mini, small",
        "--tools",
        "80=search.*",
        "--tools",
        "90=",
        "--stop",
        "100",
    ];
    let made = told(&world, &admin, &create).await;
    let thresholds = json!([
        { "percent": 80, "degrade": { "models": ["*-mini", "small"], "tools": ["search.*"] } },
        { "percent": 90, "degrade": { "tools": [] } },
        { "percent": 100, "stop": true },
    ]);
    assert_eq!(made["thresholds"], thresholds);
    let limit = ["job", "limits", "set", "principal", "agent.ada", "--max-priority", "5"];
    assert_eq!(told(&world, &admin, &limit).await["max_priority"], 5);
    world.end().await;
}
