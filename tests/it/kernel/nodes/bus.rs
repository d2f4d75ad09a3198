//! A bus that is away: NATS is killed and started again under load, or is not there at all. Nothing is lost, and the
//! servers say that wake-ups do not arrive.

use std::time::{Duration, Instant};

use entente_harness::{Client, Nats, Sse, TestBus, World, json, send_number, talk};

/// Upper bound for a change to be found by polling.
const POLLED: Duration = Duration::from_secs(2);

async fn is_degraded(client: &Client) -> bool {
    client.get("//readyz").await.ok()["degraded"] == json!(["bus"])
}

async fn becomes_degraded(client: &Client, degraded: bool) {
    let began = Instant::now();
    while is_degraded(client).await != degraded {
        assert!(began.elapsed() < Duration::from_secs(10), "degraded is not {degraded}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_no_gap_when_nats_restarts_under_load() {
    let mut bus = TestBus::nats();
    let (a, b) = World::two_on(&bus).await;
    let ada = a.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut streams = [
        Sse::open(&b.any(), &format!("/subscribe/intents/{intent}")).await,
        Sse::open(&b.any(), &format!("/channels/{channel}/subscribe")).await,
    ];
    becomes_degraded(&b.any(), false).await;
    let sending = async {
        for n in 0..300 {
            send_number(&ada, &channel, n).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let restarting = async {
        let TestBus::Nats(nats) = &mut bus else { unreachable!() };
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            nats.kill();
            tokio::time::sleep(Duration::from_millis(400)).await;
            nats.restart();
        }
    };
    tokio::join!(sending, restarting);
    for stream in &mut streams {
        for n in 0..300 {
            assert_eq!(stream.next().await.data["payload"]["n"], n, "a gap, or a repetition");
        }
    }
    // Wake-ups arrive again.
    becomes_degraded(&b.any(), false).await;
    let mut times = Vec::new();
    for n in 300..340 {
        let began = Instant::now();
        send_number(&ada, &channel, n).await;
        for stream in &mut streams {
            assert_eq!(stream.next().await.data["payload"]["n"], n);
        }
        times.push(began.elapsed());
    }
    times.sort();
    assert!(times[20] < Duration::from_millis(250), "polled, not woken: {times:?}");
    drop(streams);
    b.server.stop().await;
    a.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_bus_a_server_works_by_polling_and_says_so() {
    let mut nats = Nats::start();
    nats.kill();
    let bus = TestBus::Nats(Box::new(nats));
    let (a, b) = World::two_on(&bus).await;
    becomes_degraded(&b.any(), true).await;
    let (ada, admin) = (a.agent("agent.ada").await, a.admin().await);
    let (intent, channel) = talk(&ada, json!({})).await;
    let mut stream = Sse::open(&b.any(), &format!("/subscribe/intents/{intent}")).await;
    let began = Instant::now();
    send_number(&ada, &channel, 1).await;
    assert_eq!(stream.next().await.data["payload"]["n"], 1);
    assert!(began.elapsed() < POLLED, "{:?}", began.elapsed());
    // A revoked key is refused elsewhere, too.
    admin.post("/principals", json!({ "id": "agent.bob", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.bob/keys", json!({})).await.is(201);
    let bob = b.client(made["key"].as_str().unwrap());
    bob.get(&format!("/intents/{intent}")).await.ok();
    admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await.ok();
    let began = Instant::now();
    while bob.get(&format!("/intents/{intent}")).await.status != 401 {
        assert!(began.elapsed() < POLLED, "a revoked key works");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("without a bus, a key revoked on one server is refused on another after {:?}", began.elapsed());
    drop(stream);
    b.server.stop().await;
    a.end().await;
}
