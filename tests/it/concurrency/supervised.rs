//! Background tasks that panic: they restart and are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use entente::config::Config;
use entente::startup::{Parts, Server};
use entente_domain::clock::{Clock, Timestamp, plus_seconds, rfc3339};
use entente_domain::identity::principals::PrincipalKind;
use entente_kernel::identity::seeds;
use entente_runtime::environment::SharedClock;
use tokio::time::{sleep, timeout};

use entente_harness::{Client, Cluster, Receiver, Sse, json, subscribe, talk};

/// A clock that panics while it is broken.
#[derive(Default)]
struct Fragile {
    clock: SharedClock,
    broken: AtomicBool,
}

impl Clock for Fragile {
    fn now(&self) -> Timestamp {
        assert!(!self.broken.load(Ordering::Relaxed), "this clock is broken on purpose");
        self.clock.now()
    }

    fn set_by(&self, theirs: Timestamp, took: Duration) {
        assert!(!self.broken.load(Ordering::Relaxed), "this clock is broken on purpose");
        self.clock.set_by(theirs, took);
    }
}

async fn server(clock: Arc<Fragile>) -> Server {
    let database = Cluster::get().fresh_database().await;
    let config = Config::read(&|name| match name {
        "ENTENTE_BIND" => Some("127.0.0.1:0".to_owned()),
        "ENTENTE_WORKERS" => Some("1".to_owned()),
        "ENTENTE_RATE_PER_SECOND" => Some("0".to_owned()),
        "ENTENTE_WEBHOOK_ALLOW" => Some("127.0.0.1".to_owned()),
        _ => None,
    });
    let parts =
        Parts { clock, seeded_keys: true, ..Parts::real(config.unwrap(), Cluster::get().options(&database)) };
    let server = Box::pin(Server::start(parts)).await.unwrap();
    seeds::seed(&server.ctx, PrincipalKind::Agent, "agent.ada", "key-of-ada").await.unwrap();
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_panics_begins_again_and_is_counted() {
    let clock = Arc::new(Fragile::default());
    let server = server(Arc::clone(&clock)).await;
    let ada = Client::new(server.address, Some("key-of-ada"));
    let receiver = Receiver::start().await;
    let (_, channel) = talk(&ada, json!({})).await;
    subscribe(&ada, &receiver.url(), json!({ "event_types": ["channel_message"] })).await;

    clock.broken.store(true, Ordering::Relaxed);
    sleep(Duration::from_millis(1_500)).await;
    // The response for a panicked handler has the usual headers.
    let failed = ada.with("x-request-id", "mine").get("/intents").await;
    failed.refused(500, "internal");
    assert_eq!((failed.header("x-request-id"), failed.header("cache-control")), ("mine", "no-store"));
    clock.broken.store(false, Ordering::Relaxed);

    // Requests in flight fail with the panic; new ones work.
    let mut all = Sse::open(&ada, "/subscribe").await;
    let soon = rfc3339(plus_seconds(server.ctx.now(), 1));
    let messages = format!("/channels/{channel}/messages");
    let mut body = json!({ "sender": "agent.ada", "payload": {} });
    body["expires_at"] = json!(soon);
    let began = Instant::now();
    loop {
        // Requests that the panic affected may fail, but not for long.
        let said = ada.post(&messages, body.clone()).await;
        if said.status == 201 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{}", said.text);
        sleep(Duration::from_millis(100)).await;
    }
    // Webhooks, the feed and the sweeps continue.
    receiver.until(1).await;
    all.next_named("channel_message").await;
    let told = timeout(Duration::from_secs(15), all.next_named("message_expired")).await;
    assert_eq!(told.expect("the sweeps do not go on").data["status"], "expired");
    let metrics = ada.get("//metrics").await.text;
    let counted = metrics.lines().any(|line| line.starts_with("entente_task_failures_total{task="));
    assert!(counted, "{metrics}");
    let lost = r#"entente_http_requests_total{method="GET",route="lost",status="500"}"#;
    assert!(metrics.lines().any(|line| line.starts_with(lost)), "{metrics}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_go_on_says_so_to_whoever_runs_it() {
    let clock = Arc::new(Fragile::default());
    let server = server(Arc::clone(&clock)).await;
    clock.broken.store(true, Ordering::Relaxed);
    // After about 20 seconds of restarts the process exits with a failure (`cli/run.rs`).
    let culprit = timeout(Duration::from_secs(90), server.failed()).await.expect("nobody noticed");
    assert!(!culprit.is_empty());
    clock.broken.store(false, Ordering::Relaxed);
    server.stop().await;
}
