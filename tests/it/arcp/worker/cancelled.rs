//! Commands of cancelled jobs: how long they may take to stop.

use std::fs;
use std::process::Stdio;

use entente_harness::desk::{Desk, Hand, PATIENCE};
use entente_harness::jobs::id;
use entente_harness::{ANY, World, json};

use super::{live, over, runs};

/// A command that needs longer to tidy up than a worker gives by itself.
const TIDY: &str = r#"
trap 'sleep 11; echo tidied > "$PLACE/told"; exit 0' TERM
echo $$ > "$PLACE/pid"
while :; do sleep 0.1; done"#;

/// Runs [`TIDY`] for a job, cancels the job, and returns the worker, the job's id and the command's process.
async fn cancelled(world: &World, desk: &Desk, grace: &str) -> (Hand, String, String) {
    let log = desk.place.0.join("worker.log");
    let run = ["worker", "--agent=tidy@1.0.0", "--drain-seconds", "0", "--exec", TIDY];
    let mut worker = desk.command(ANY, &run);
    let child = worker.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap();
    world.any().put("/arcp/agents/tidy/versions/1.0.0", json!({})).await.ok();
    let job = desk.submit("tidy", &[]).await;
    let pid = desk.file("pid").await;
    let session = job["session_id"].as_str().unwrap();
    desk.told(&["job", "cancel", id(&job), "--session", session, "--grace", grace]).await;
    (Hand { child, log }, id(&job).to_owned(), pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_the_time_that_the_canceller_gives() {
    let world = live().await;
    let desk = Desk::of(&world);
    let (hand, job, pid) = cancelled(&world, &desk, "60").await;
    assert_eq!(desk.file("told").await, "tidied");
    desk.until(&job, "cancelled").await;
    assert!(!runs(&pid), "it goes on: {}", hand.log());
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_longer_is_ended_and_its_end_reported() {
    let world = live().await;
    let desk = Desk::of(&world);
    // Shorter than the worker's own 10 s: these are the least.
    let (hand, job, pid) = cancelled(&world, &desk, "5").await;
    desk.until(&job, "cancelled").await;
    over(&pid, PATIENCE).await;
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_waits_for_no_cancellation() {
    let world = live().await;
    let desk = Desk::of(&world);
    let (hand, job, pid) = cancelled(&world, &desk, "600").await;
    hand.stop().await;
    assert!(!runs(&pid), "it goes on");
    assert_eq!(desk.until(&job, "cancelled").await["current_status"], "cancelled");
    world.server.stop().await;
}
