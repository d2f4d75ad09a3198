//! A server that is suspended for a while, as on a sleeping laptop: it blames no receiver for the
//! time that it missed.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use entente_harness::process::{Launch, Place, key_of};
use entente_harness::{Act, Cluster, Receiver, Value, json, subscribe, talk};

async fn log(ada: &entente_harness::Client, made: &Value) -> Vec<Value> {
    let path = format!("/subscriptions/{}/deliveries", made["id"].as_str().unwrap());
    ada.get(&path).await.ok().as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_does_not_blame_its_receivers() {
    let (place, cluster) = (Place::new("paused"), Cluster::get());
    let url = cluster.url(&cluster.fresh_database().await);
    let launch = Launch::shared(&place, &url).with("ENTENTE_WEBHOOK_TIMEOUT_SECONDS", "2");
    let (process, _) = launch.start().await;
    let ada = process.client(&key_of("agent.ada"));
    let (_, channel) = talk(&ada, json!({})).await;
    let receiver = Receiver::start().await;
    receiver.does([Act::Hang, Act::Say(200, "")]);
    let made = subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;
    let body = json!({ "sender": "agent.ada", "payload": {} });
    ada.post(&format!("/channels/{channel}/messages"), body).await.is(201);
    // The request is sent, and its timeout passes while the server is suspended.
    receiver.until(1).await;
    process.freeze();
    sleep(Duration::from_secs(4)).await;
    process.thaw();
    let began = Instant::now();
    receiver.until(2).await;
    let took = began.elapsed();
    let delivered = loop {
        let log = log(&ada, &made).await;
        if log[0]["status"] == "delivered" {
            break log[0].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{log:?}");
        sleep(Duration::from_millis(50)).await;
    };
    let attempts = delivered["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "an attempt counts that nobody but the server failed: {delivered}");
    assert!(took < Duration::from_secs(4), "it waited as after a failure: {took:?}");
    // A receiver that hangs while the server runs is treated as failed, as usual.
    receiver.does([Act::Hang, Act::Say(200, "")]);
    let body = json!({ "sender": "agent.ada", "payload": { "n": 2 } });
    ada.post(&format!("/channels/{channel}/messages"), body).await.is(201);
    let began = Instant::now();
    loop {
        let log = log(&ada, &made).await;
        if let Some(attempt) = log[0]["attempts"].get(0).filter(|_| log.len() == 2) {
            assert!(attempt["error"].as_str().unwrap().contains("in time"), "{attempt}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{log:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
