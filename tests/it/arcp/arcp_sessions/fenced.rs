//! Sessions of ARCP that name an epoch: what they write takes effect only while it is the agent's latest.

use super::world;
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Value, World, json};

/// Says hello with this member `x-entente`, and returns the answer.
async fn introduced(world: &World, key: &str, beyond: Value) -> (Socket, Value) {
    let mut socket = Socket::connect(world.address, "/arcp").await;
    let frame = json!({
        "arcp": "1.1", "id": "hello-1", "type": "session.hello", "payload": hello(key, &FEATURES), "x-entente": beyond,
    });
    socket.raw(&frame.to_string()).await;
    let answer = socket.next().await.unwrap();
    (socket, answer)
}

#[tokio::test]
async fn a_session_writes_while_its_epoch_is_the_latest() {
    let (world, _hand, key) = world().await;
    let client = world.client(key);
    let path = "/agents/agent.client/sessions";
    let epoch = client.post(path, json!({})).await.is(201)["epoch"].clone();
    let (mut first, welcome) = introduced(&world, key, json!({ "epoch": epoch })).await;
    assert_eq!(welcome["type"], "session.welcome", "{welcome}");
    let job = first.submit(json!({ "agent": "echo" })).await["job_id"].clone();
    let next = client.post(path, json!({})).await.is(201)["epoch"].clone();
    first.refused("job.submit", json!({ "agent": "echo" }), "PERMISSION_DENIED").await;
    first.refused("job.cancel", json!({ "job_id": job }), "PERMISSION_DENIED").await;
    // It may still read.
    let listed = first.ask("session.list_jobs", json!({})).await;
    assert_eq!(listed["payload"]["jobs"][0]["job_id"], job);
    let (_closed, refused) = introduced(&world, key, json!({ "epoch": epoch })).await;
    assert_eq!(
        (&refused["type"], &refused["payload"]["code"]),
        (&json!("session.error"), &json!("PERMISSION_DENIED"))
    );
    let (mut second, _welcome) = introduced(&world, key, json!({ "epoch": next })).await;
    let job = second.submit(json!({ "agent": "echo" })).await["job_id"].clone();
    let cancelled = second.ask("job.cancel", json!({ "job_id": job })).await;
    assert_ne!(cancelled["type"], "session.error", "{cancelled}");
    // Without one, nothing is required.
    Socket::open(&world, key).await.submit(json!({ "agent": "echo" })).await;
    for wrong in [json!(7), json!({ "epoch": 0 }), json!({ "epoch": "7" }), json!({ "epok": 7 })] {
        let (_socket, refused) = introduced(&world, key, wrong.clone()).await;
        assert_eq!(refused["payload"]["code"], "INVALID_REQUEST", "{wrong}: {refused}");
    }
    drop((first, second));
    world.end().await;
}

#[tokio::test]
async fn a_strict_agents_session_writes_nothing_without_an_epoch() {
    let (world, _hand, key) = world().await;
    let strict = json!({ "strict": true });
    let epoch =
        world.client(key).post("/agents/agent.client/sessions", strict).await.is(201)["epoch"].clone();
    let mut bare = Socket::open(&world, key).await;
    bare.refused("job.submit", json!({ "agent": "echo" }), "PERMISSION_DENIED").await;
    assert_eq!(bare.ask("session.list_jobs", json!({})).await["payload"]["jobs"], json!([]));
    let (mut fenced, _welcome) = introduced(&world, key, json!({ "epoch": epoch })).await;
    fenced.submit(json!({ "agent": "echo" })).await;
    drop((bare, fenced));
    world.end().await;
}
