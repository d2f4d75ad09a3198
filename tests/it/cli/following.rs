//! `entente job submit --follow`: waits for somebody who serves the agent, and says so.

use std::process::Output;
use std::time::Duration;

use tokio::process::Command;

use super::{complaint, text};
use entente_harness::{Setup, World, json};

/// Runs a command as agent.ada.
async fn ran(world: &World, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.args(arguments).env_clear().env("ENTENTE_API_KEY", "key-of-agent.ada");
    command.env("ENTENTE_URL", format!("http://{}", world.address)).kill_on_drop(true);
    command.output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_its_agent_and_a_job_for_its_worker() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let at_once = ran(&world, &["job", "submit", "--agent", "echo"]).await;
    assert_eq!(at_once.status.code(), Some(7), "nobody asked it to wait");
    let short = ran(&world, &["job", "submit", "--agent", "echo", "--follow", "--agent-wait", "1"]).await;
    assert_eq!(short.status.code(), Some(7));
    assert!(
        complaint(&short).contains("Nobody serves `echo` yet; waiting up to 1 s"),
        "{}",
        complaint(&short)
    );
    assert!(complaint(&short).contains("AGENT_NOT_AVAILABLE"), "{}", complaint(&short));

    let follows = ["job", "submit", "--agent", "echo", "--input", "1", "--follow"];
    let works = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ada.put("/arcp/agents/echo/versions/1", json!({})).await.ok();
        let worker = json!({ "name": "late", "agents": ["echo@1"], "slots": 1 });
        let worker = ada.post("/workers", worker).await.is(201)["worker_id"].clone();
        // Longer than a follower is silent.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let claim = json!({ "worker_id": worker, "max": 1, "wait_sec": 20 });
        let job = ada.post("/jobs/claim", claim).await.ok()["jobs"][0].clone();
        let result = json!({ "claim_token": job["claim_token"], "result": "done" });
        ada.post(&format!("/jobs/{}/result", job["job_id"].as_str().unwrap()), result).await.ok();
    };
    let (followed, ()) = tokio::join!(ran(&world, &follows), works);
    assert!(followed.status.success(), "{}", complaint(&followed));
    assert!(text(&followed).contains("\"done\""), "{}", text(&followed));
    let told = complaint(&followed);
    assert!(told.contains("Nobody serves `echo` yet; waiting up to 30 s"), "{told}");
    assert!(told.contains("The job is in the queue, and waits for a worker of `echo@1`"), "{told}");
    world.end().await;
}
