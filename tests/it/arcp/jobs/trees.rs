//! A job with its children: status and cost of each, and the sums.

use super::{Hand, id};
use entente_harness::{World, json};

#[tokio::test]
async fn a_tree_has_the_costs_of_each_job_and_their_sums() {
    let world = World::start().await;
    let client = world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1").await;
    let lease = json!({ "agent.delegate": ["echo"], "cost.budget": ["USD:10.00"] });
    let root = client.post("/jobs", json!({ "agent": "echo", "lease_request": lease })).await.is(201);
    let cost = |amount: &str, unit: &str| {
        let value: serde_json::Number = amount.parse().unwrap();
        json!([{ "kind": "metric", "body": { "name": "cost.model", "value": value, "unit": unit } }])
    };
    let parent = hand.one().await;
    hand.events(&parent, cost("0.1", "USD")).await.ok();
    let mut children = Vec::new();
    for name in ["a", "b"] {
        world.clock.advance(1);
        let body =
            json!({ "delegate_id": name, "agent": "echo", "lease_request": { "agent.delegate": ["echo"] } });
        hand.tell(&parent, "delegate", body).await.is(201);
        children.push(hand.one().await);
    }
    hand.events(&children[0], cost("0.2", "USD")).await.ok();
    hand.events(&children[0], cost("0.05", "USD")).await.ok();
    hand.events(&children[1], cost("3", "EUR")).await.ok();
    world.clock.advance(1);
    hand.tell(&children[0], "delegate", json!({ "delegate_id": "aa", "agent": "echo" })).await.is(201);
    let grandchild = hand.one().await;
    hand.events(&grandchild, cost("0.3", "USD")).await.ok();
    hand.tell(&grandchild, "result", json!({ "result": 1 })).await.ok();

    let path = format!("/jobs/{}/tree", id(&root));
    let tree = client.get(&path).await.ok();
    let ids: Vec<&str> = tree["jobs"].as_array().unwrap().iter().map(id).collect();
    assert_eq!(ids, [id(&root), id(&children[0]), id(&children[1]), id(&grandchild)]);
    let node = |at: usize| &tree["jobs"][at];
    assert_eq!(
        (&node(0)["cost"], &node(0)["total_cost"]),
        (&json!({ "USD": 0.1 }), &json!({ "EUR": 3, "USD": 0.65 }))
    );
    assert_eq!(
        (&node(1)["cost"], &node(1)["total_cost"]),
        (&json!({ "USD": 0.25 }), &json!({ "USD": 0.55 }))
    );
    assert_eq!((&node(3)["depth"], &node(3)["parent_job_id"]), (&json!(2), &node(1)["job_id"]));
    assert_eq!((&node(3)["status"], &node(3)["delegate_id"]), (&json!("success"), &json!("aa")));
    assert_eq!(tree["total_cost"], json!({ "EUR": 3, "USD": 0.65 }));
    assert_eq!((&tree["count"], &tree["by_status"]), (&json!(4), &json!({ "running": 3, "success": 1 })));
    // A page has fewer jobs, and the same sums.
    let short = client.get(&format!("{path}?limit=1")).await.ok();
    assert_eq!((short["jobs"].as_array().unwrap().len(), &short["total_cost"]), (1, &tree["total_cost"]));
    let below = client.get(&format!("/jobs/{}/tree", id(&children[0]))).await.ok();
    assert_eq!((&below["count"], &below["total_cost"]), (&json!(2), &json!({ "USD": 0.55 })));
    assert_eq!(client.get(&format!("/jobs/{}", id(&root))).await.ok()["cost"], json!({ "USD": 0.1 }));
    assert_eq!(super::searching::found(&client, &format!("parent_job_id={}", id(&root))).await.len(), 2);
    world.end().await;
}
