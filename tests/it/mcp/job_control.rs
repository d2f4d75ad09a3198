//! The tool that controls jobs after their submission, and the list of jobs by conditions.

use super::tools::fits;
use super::{Era, Mcp};
use entente_harness::jobs::Hand;
use entente_harness::spending::{budget, usage};
use entente_harness::{World, json};

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

#[tokio::test]
async fn an_agent_hands_a_job_back_and_sees_attempts_tree_and_counts() {
    let world = World::start().await;
    let ada = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    let worker = Mcp::new(&world.any(), Era::Stateless);
    worker.ok("claim_job", json!({ "agents": ["echo"], "register": true })).await;
    let job = fits(&ada, "submit_job", json!({ "agent": "echo" })).await["job_id"].clone();
    let claimed = fits(&worker, "claim_job", json!({ "agents": ["echo"] })).await["job"].clone();
    assert_eq!(claimed["job_id"], job);
    let back = json!({ "job_id": job, "action": "hand_back", "claim_token": claimed["claim_token"] });
    worker.refused("control_job", json!({ "job_id": job, "action": "hand_back" }), "invalid_request").await;
    assert_eq!(fits(&worker, "control_job", back.clone()).await["status"], "pending");
    worker.refused("control_job", back, "CLAIM_LOST").await;
    let claimed = fits(&worker, "claim_job", json!({ "agents": ["echo"] })).await["job"].clone();
    let failed =
        json!({ "job_id": job, "claim_token": claimed["claim_token"], "error": { "message": "no luck" } });
    worker.ok("finish_job", failed).await;
    // One that was handed back is no attempt.
    let tried = fits(&ada, "control_job", json!({ "job_id": job, "action": "attempts" })).await;
    assert_eq!(tried["attempts"].as_array().unwrap().len(), 1, "{tried}");
    assert_eq!(tried["attempts"][0]["message"], "no luck");
    fits(&ada, "submit_job", json!({ "agent": "echo" })).await;
    let counted = fits(&ada, "list_jobs", json!({ "count": true })).await;
    assert_eq!(
        (&counted["counts"], &counted["complete"]),
        (&json!({ "error": 1, "pending": 1 }), &json!(true))
    );
    let tree = fits(&ada, "control_job", json!({ "job_id": job, "action": "tree" })).await;
    assert_eq!((&tree["count"], &tree["jobs"][0]["job_id"]), (&json!(1), &job));
    let stranger = Mcp::new(&world.agent("agent.stranger").await, Era::Stateless);
    for action in ["attempts", "tree"] {
        stranger.refused("control_job", json!({ "job_id": job, "action": action }), "JOB_NOT_FOUND").await;
    }
    world.end().await;
}

#[tokio::test]
async fn an_agent_reserves_what_a_call_may_cost_and_settles_it() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = Mcp::new(&world.agent("agent.ada").await, Era::Stateless);
    let made = budget(&admin, "principal:agent.ada", json!(1), json!({})).await;
    let ask = json!({ "action": "reserve", "amount": 0.75, "unit": "USD", "model": "m", "call_id": "c1" });
    let held = fits(&ada, "costs", ask.clone()).await["reservation_id"].clone();
    assert_eq!(fits(&ada, "costs", ask).await["reservation_id"], held, "one call, held once");
    assert_eq!(usage(&admin, &made).await[2], json!(0.75));
    let more = json!({ "action": "reserve", "amount": 0.5, "unit": "USD" });
    ada.refused("costs", more.clone(), "BUDGET_EXHAUSTED").await;
    ada.refused("costs", json!({ "action": "reserve", "amount": 0.5 }), "invalid_request").await;
    ada.refused("costs", json!({ "action": "settle", "reservation_id": held }), "invalid_request").await;
    let settle = json!({ "action": "settle", "reservation_id": held, "amount": 0.25, "unit": "USD" });
    let stranger = Mcp::new(&world.agent("agent.stranger").await, Era::Stateless);
    stranger.refused("costs", settle.clone(), "not_found").await;
    for _ in 0..2 {
        assert_eq!(fits(&ada, "costs", settle.clone()).await["ended_as"], "settled");
    }
    let held = fits(&ada, "costs", more).await["reservation_id"].clone();
    let release = json!({ "action": "release", "reservation_id": held });
    assert_eq!(fits(&ada, "costs", release).await["ended_as"], "released");
    assert_eq!(usage(&admin, &made).await, [json!(1), json!(0.25), json!(0), json!(0.75)]);
    ada.refused("costs", json!({ "action": "list" }), "invalid_request").await;
    world.end().await;
}
