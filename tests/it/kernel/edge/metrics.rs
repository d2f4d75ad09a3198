//! Metrics: their names and units are those that clients of Prometheus expect, requests count by route and never by id, and
//! requests that wait for an event are counted apart.

use std::time::Duration;

use entente_harness::{Setup, World, json, send_number, talk};

/// Returns the value of a line of the metrics.
async fn value(world: &World, line: &str) -> Option<f64> {
    let text = world.anon().get("//metrics").await.text;
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_count_by_route_and_those_that_wait_apart() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (_, channel) = talk(&ada, json!({})).await;
    let route = "method=\"GET\",route=\"/api/v1/channels/{channel_id}/messages\"";
    let prompt = format!("entente_http_request_duration_seconds_count{{{route}}}");
    let waited = format!("entente_http_wait_duration_seconds_count{{{route}}}");
    ada.get(&format!("/channels/{channel}/messages")).await.ok();
    assert_eq!((value(&world, &prompt).await, value(&world, &waited).await), (Some(1.0), None));
    let last = send_number(&ada, &channel, 0).await;
    let path = format!("/channels/{channel}/messages?since={}&wait=10", last["id"].as_str().unwrap());
    let poll = ada.get(&path);
    let send = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        send_number(&ada, &channel, 1).await;
    };
    tokio::join!(poll, send).0.ok();
    assert_eq!((value(&world, &prompt).await, value(&world, &waited).await), (Some(1.0), Some(1.0)));
    let sum = format!("entente_http_wait_duration_seconds_sum{{{route}}}");
    assert!(value(&world, &sum).await.unwrap() > 0.2, "it waited");
    let text = world.anon().get("//metrics").await.text;
    assert!(!text.contains(&channel) && !text.contains("agent.ada"), "an id is in the metrics");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_its_release_and_its_pools_are_seen() {
    let world = World::with(Setup::live()).await;
    let version = env!("CARGO_PKG_VERSION");
    let build = format!("entente_build_info{{version=\"{version}\",commit=\"development build\"}}");
    assert_eq!(value(&world, &build).await, Some(1.0));
    let cpu = value(&world, "process_cpu_seconds_total").await.unwrap();
    assert!(cpu > 0.0);
    for (name, least) in [
        ("process_resident_memory_bytes", 1e6),
        ("process_virtual_memory_bytes", 1e6),
        ("process_open_fds", 3.0),
        ("process_max_fds", 10.0),
        ("process_threads", 2.0),
        ("process_start_time_seconds", 1.7e9),
    ] {
        let found = value(&world, name).await;
        assert!(found.is_some_and(|found| found >= least), "{name}: {found:?}");
    }
    // Requests have 20 connections by default.
    assert_eq!(value(&world, "entente_pool_connections_max{pool=\"requests\"}").await, Some(20.0));
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(world.ctx().pool.acquire().await.unwrap());
    }
    let used = value(&world, "entente_pool_connections_used{pool=\"main\"}").await.unwrap();
    assert!(used >= 4.0, "{used} are taken");
    drop(held);
    // The end is said once.
    let text = world.anon().get("//metrics").await.text;
    assert_eq!(text.matches("# EOF").count(), 1);
    assert!(text.ends_with("# EOF\n"));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_decisions_and_budgets_are_counted_without_names() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let admin = world.admin().await;
    admin.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
    for _ in 0..2 {
        ada.post("/jobs", json!({ "agent": "echo", "input": { "secret": "word" } })).await.ok();
    }
    let worker = admin.post("/workers", json!({ "name": "w", "agents": ["echo@1"], "slots": 1 })).await.ok();
    let worker = worker["worker_id"].as_str().unwrap();
    let claims = admin.post("/jobs/claim", json!({ "worker_id": worker, "max": 1 })).await.ok();
    let claim = &claims["jobs"][0];
    let budget = json!({ "name": "ada's", "unit": "USD", "limit": 10, "scope": "agent:agent.ada" });
    admin.post("/budgets", budget).await.ok();
    assert_eq!(value(&world, "entente_jobs_open{status=\"pending\"}").await, Some(1.0));
    assert_eq!(value(&world, "entente_jobs_open{status=\"running\"}").await, Some(1.0));
    assert_eq!(value(&world, "entente_budgets{use=\"below_80\"}").await, Some(1.0));
    assert_eq!(value(&world, "entente_budgets{use=\"full\"}").await, Some(0.0));
    assert_eq!(value(&world, "entente_decisions_waiting").await, Some(0.0));
    assert_eq!(value(&world, "entente_decision_oldest_wait_seconds").await, Some(0.0));
    assert!(value(&world, "entente_job_oldest_wait_seconds").await.is_some_and(|age| age > 0.0));
    let id = claim["job_id"].as_str().unwrap();
    let result = json!({ "claim_token": claim["claim_token"], "result": 1 });
    admin.post(&format!("/jobs/{id}/result"), result).await.ok();
    assert_eq!(value(&world, "entente_jobs_ended_total{status=\"success\"}").await, Some(1.0));
    assert_eq!(value(&world, "entente_job_duration_seconds_count{status=\"success\"}").await, Some(1.0));
    let text = world.anon().get("//metrics").await.text;
    assert!(["agent.ada", "ada's", "echo", id].iter().all(|name| !text.contains(name)), "a name is told");
    world.end().await;
}
