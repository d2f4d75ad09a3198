//! The tool that controls jobs after their submission, and the list of jobs by conditions.

use super::tools::fits;
use super::{Era, Mcp};
use crate::arcp::jobs::Hand;
use crate::harness::{World, json};

#[tokio::test]
async fn an_agent_signals_its_job_and_runs_it_again() {
    let world = World::start().await;
    let a = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    let hand = Hand::of(&world.any(), "echo@1").await;
    let worker = Mcp::new(&world.any(), Era::Stateless);
    let ask = json!({ "agent": "echo", "labels": { "team": "red" } });
    let job = fits(&a, "submit_job", ask).await["job_id"].clone();
    a.refused("control_job", json!({ "job_id": job, "action": "signal" }), "invalid_request").await;
    let signal =
        json!({ "job_id": job, "action": "signal", "name": "input", "payload": [1], "idempotency_key": "k" });
    assert_eq!(fits(&a, "control_job", signal.clone()).await["seq"], 1);
    assert_eq!(fits(&a, "control_job", signal).await["seq"], 1);
    let claimed = hand.one().await;
    let take = json!({ "job_id": job, "action": "take_signals", "claim_token": claimed["claim_token"] });
    let taken = fits(&worker, "control_job", take.clone()).await;
    assert_eq!(
        (&taken["signals"][0]["name"], &taken["signals"][0]["payload"]),
        (&json!("input"), &json!([1]))
    );
    let mut acked = take;
    acked["ack"] = json!(1);
    let taken = fits(&worker, "control_job", acked).await;
    assert_eq!((&taken["signals"], &taken["acknowledged"]), (&json!([]), &json!(1)));

    let failed =
        json!({ "job_id": job, "claim_token": claimed["claim_token"], "error": { "message": "no" } });
    worker.ok("finish_job", failed).await;
    let found = fits(&a, "list_jobs", json!({ "dead_letter": true, "labels": { "team": "red" } })).await;
    assert_eq!(found["jobs"][0]["job_id"], job);
    let again = json!({ "job_id": job, "action": "rerun", "idempotency_key": "again" });
    let made = fits(&a, "control_job", again.clone()).await;
    assert_eq!((&made["rerun_of"], &made["repeated"]), (&job, &json!(false)));
    let repeated = fits(&a, "control_job", again).await;
    assert_eq!((&repeated["job_id"], &repeated["repeated"]), (&made["job_id"], &json!(true)));
    assert_eq!(fits(&a, "list_jobs", json!({ "dead_letter": true })).await["jobs"], json!([]));
    let end = json!({ "job_id": made["job_id"], "session_id": made["session_id"], "grace_s": 5 });
    assert_eq!(fits(&a, "cancel_job", end).await["status"], "cancelled");
    let stranger = Mcp::new(&world.agent("agent.stranger").await, Era::Stateless);
    for action in ["rerun", "resolve"] {
        stranger.refused("control_job", json!({ "job_id": job, "action": action }), "JOB_NOT_FOUND").await;
    }
    world.end().await;
}
