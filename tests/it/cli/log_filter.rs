//! The log filter of a running server: changed over REST, until its time is over.

use std::time::{Duration, Instant};

use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Client, Cluster, Setup, World, json};

/// How long a line that should not be written is waited for.
const SILENCE: Duration = Duration::from_millis(400);
/// How long a line that should be written is waited for: a thread of its own writes the log.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes a request and returns whether the log gets a line about it, which only the level `debug` writes.
async fn logged(place: &Place, client: &Client, mark: &str, limit: Duration) -> bool {
    client.with("x-request-id", mark).get("/principals/me").await.ok();
    let asked = Instant::now();
    while asked.elapsed() < limit {
        if place.log().contains(mark) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_looks_closer_for_a_while() {
    let (world, place) = (World::with(Setup::live()).await, Place::new("log-filter"));
    let url = Cluster::get().url(&world.database);
    let (server, _) = Launch::shared(&place, &url).start().await;
    let (mut admin, ada) = (world.admin().await, server.client(&key_of("agent.ada")));
    admin.base.clone_from(&ada.base);
    assert!(!logged(&place, &ada, "before-the-change", SILENCE).await);
    let path = "/log-filter";
    ada.put(path, json!({ "filter": "debug" })).await.refused(403, "scope_missing");
    for bad in
        [json!({ "filter": "info,entente=loudly" }), json!({ "filter": "debug", "seconds": 0 }), json!({})]
    {
        let reply = admin.put(path, bad).await;
        assert_eq!(reply.status, 422, "{}", reply.text);
    }
    let began = Instant::now();
    let set = admin.put(path, json!({ "filter": "entente_http=debug", "seconds": 2 })).await.ok();
    assert_eq!((&set["filter"], &set["configured"]), (&json!("entente_http=debug"), &json!("warn")), "{set}");
    assert!(logged(&place, &ada, "during-the-change", PATIENCE).await, "{}", place.log());
    assert!(place.log().contains("the log filter is changed for a while"));
    while admin.get(path).await.ok()["seconds_left"] != json!(null) {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "it ended early");
    assert!(!logged(&place, &ada, "after-the-change", SILENCE).await);
    admin.put(path, json!({ "filter": "debug", "seconds": 3600 })).await.ok();
    let back = admin.delete(path).await.ok();
    assert_eq!(back["filter"], json!("warn"), "{back}");
    assert!(!logged(&place, &ada, "after-the-end", SILENCE).await);
    drop(server);
    world.end().await;
}
