//! Versions side by side (ARCP §7.5): jobs of the old version finish there, while new ones go to the new default.

use super::{Hand, id, status};
use entente_harness::{World, json};

#[tokio::test]
async fn jobs_of_the_old_version_finish_there_while_new_ones_go_to_the_default() {
    let world = World::start().await;
    let any = world.any();
    let client = world.agent("agent.client").await;
    let old = Hand::of(&any, "echo@1").await;
    let submit =
        async |agent: &str| id(&client.post("/jobs", json!({ "agent": agent })).await.is(201)).to_owned();
    let (running, waiting) = (submit("echo").await, submit("echo").await);
    let begun = old.claim(1).await.remove(0);
    assert_eq!(id(&begun), running);
    // The new version becomes the default, with a worker of its own; the old one goes on.
    let new = Hand::of(&any, "echo@2").await;
    any.put("/arcp/agents/echo/versions/2", json!({ "default": true })).await.ok();
    let (fresh, pinned) = (submit("echo").await, submit("echo@1").await);
    let claimed = new.one().await;
    assert_eq!((id(&claimed), &claimed["agent"]), (fresh.as_str(), &json!("echo@2")));
    assert!(new.claim(10).await.is_empty(), "nothing of the old version");
    // What the old worker gives back when it stops is for another of its version, and no attempt.
    any.post(&format!("/workers/{}/leave", old.id), json!({})).await.ok();
    assert_eq!(status(&client, &running).await, "pending");
    assert!(new.claim(10).await.is_empty());
    let last = Hand::again(&any, "echo@1").await;
    let mut left = last.claim(10).await;
    left.sort_by_key(|job| id(job).to_owned());
    let mut expected = [running, waiting, pinned];
    expected.sort();
    assert_eq!(left.iter().map(id).collect::<Vec<_>>(), expected);
    assert!(left.iter().all(|job| job["agent"] == "echo@1" && job["attempt"] == 1), "{left:?}");
    for job in &left {
        last.tell(job, "result", json!({ "result": 1 })).await.ok();
    }
    world.end().await;
}

#[tokio::test]
async fn a_limit_of_an_agent_counts_all_its_versions() {
    let world = World::start().await;
    let any = world.any();
    Hand::of(&any, "echo@1").await;
    Hand::of(&any, "echo@2").await;
    let both = Hand::again(&any, "echo").await;
    any.put("/arcp/limits/agents/echo", json!({ "max_running": 2 })).await.ok();
    for agent in ["echo@1", "echo@1", "echo@2", "echo@2"] {
        any.post("/jobs", json!({ "agent": agent })).await.is(201);
    }
    let running = both.claim(10).await;
    assert_eq!(running.len(), 2);
    assert!(both.claim(10).await.is_empty());
    both.tell(&running[0], "result", json!({ "result": 1 })).await.ok();
    assert_eq!(both.claim(10).await.len(), 1);
    world.end().await;
}
