//! `entente prune`: it counts, deletes what is past its retention, and nothing else.

use std::process::{Command, Output};

use super::{complaint, text};
use entente_harness::jobs::{Hand, id};
use entente_harness::{Cluster, Value, World, json};

/// Runs the program on the database of a test's server.
async fn pruned(world: &World, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_entente"));
    program.arg("prune").args(arguments).env_clear().current_dir(std::env::temp_dir());
    program.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    program.env("DATABASE_URL", Cluster::get().url(&world.database)).envs(settings.iter().copied());
    tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap()
}

/// Makes `count` jobs that ended two days before the clock of the database.
async fn jobs(world: &World, count: usize) {
    let any = world.any();
    let hand = Hand::of(&any, "echo@1.0.0").await;
    for _ in 0..count {
        id(&any.post("/jobs", json!({ "agent": "echo" })).await.is(201));
        let held = hand.one().await;
        hand.tell(&held, "result", json!({ "result": {} })).await.ok();
    }
    let sql = "UPDATE job_clock SET ended_at = now() - interval '2 days' WHERE ended_at IS NOT NULL";
    sqlx::query(sql).execute(&world.ctx().pool).await.unwrap();
}

async fn left(world: &World) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM jobs").fetch_one(&world.ctx().pool).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_and_deletes_nothing() {
    let world = World::start().await;
    jobs(&world, 4).await;
    let output = pruned(&world, &["--dry-run"], &[("ENTENTE_JOB_RETENTION_DAYS", "1")]).await;
    assert!(output.status.success(), "{}", complaint(&output));
    let told = text(&output);
    // The job with the last number stays.
    assert!(
        told.contains("           3  ended jobs                       a day (ENTENTE_JOB_RETENTION_DAYS)"),
        "{told}"
    );
    assert!(
        told.contains("messages of ended channels       for ever (ENTENTE_MESSAGE_RETENTION_DAYS)"),
        "{told}"
    );
    let output = pruned(&world, &["--dry-run", "--json"], &[("ENTENTE_JOB_RETENTION_DAYS", "1")]).await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = told["nouns"].as_array().unwrap().iter().find(|noun| noun["noun"] == "ended jobs").unwrap();
    assert_eq!((&of["expired"], &of["kept_seconds"]), (&json!(3), &json!(86_400)), "{told}");
    let of =
        told["nouns"].as_array().unwrap().iter().find(|noun| noun["noun"] == "events under a checkpoint");
    let of = of.unwrap();
    assert_eq!((&of["expired"], &of["kept_seconds"]), (&json!(0), &json!(null)), "{told}");
    assert_eq!(of["setting"], "ENTENTE_EVENT_RETENTION_DAYS");
    assert_eq!(left(&world).await, 4);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_past_its_retention_is_deleted_beside_a_running_server() {
    let world = World::start().await;
    jobs(&world, 4).await;
    let output = pruned(&world, &[], &[("ENTENTE_JOB_RETENTION_DAYS", "3")]).await;
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(left(&world).await, 4, "none ended three days ago: {}", text(&output));
    let output = pruned(&world, &[], &[("ENTENTE_JOB_RETENTION_DAYS", "1")]).await;
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(text(&output).contains("ended_jobs: 3 rows deleted"), "{}", text(&output));
    assert_eq!(left(&world).await, 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_schema_is_refused() {
    let world = World::start().await;
    let last = "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)";
    sqlx::query(last).execute(&world.ctx().pool).await.unwrap();
    let output = pruned(&world, &[], &[]).await;
    assert!(!output.status.success());
    assert!(complaint(&output).contains("run `entente migrate` first"), "{}", complaint(&output));
    world.end().await;
}
