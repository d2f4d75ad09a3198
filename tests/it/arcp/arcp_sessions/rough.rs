//! Rough input: invalid, oversized, deeply nested and premature frames; clients that do not read; and the server's
//! shutdown.

use std::time::Duration;

use tokio_tungstenite::tungstenite::Message;

use super::{world, world_with};
use entente_harness::jobs::Hand;
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{World, json};

#[tokio::test]
async fn what_is_no_envelope_is_answered_and_harms_nothing() {
    let (world, _hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let deep = format!(
        r#"{{"arcp":"1.1","id":"x","type":"job.submit","payload":{{"agent":"echo","input":{}1{}}}}}"#,
        "[".repeat(70),
        "]".repeat(70)
    );
    let nonsense = [
        "",
        "{",
        "null",
        "[]",
        "7",
        "{}",
        "nonsense",
        r#"{"arcp":"1.1","id":"","type":"session.ping","payload":{}}"#,
        r#"{"arcp":"1.1","id":7,"type":"session.ping","payload":{}}"#,
        r#"{"arcp":"1.1","id":"x","payload":{}}"#,
        r#"{"arcp":"1.0","id":"x","type":"session.ping","payload":{}}"#,
        r#"{"arcp":"1.1","id":"x","type":"session.ping","payload":[]}"#,
        r#"{"arcp":"1.1","id":"x","type":"session.ack","payload":{"last_processed_seq":"x"}}"#,
        r#"{"arcp":"1.1","id":"x","type":"job.submit","payload":{"agent":"ec\u0000ho"}}"#,
        r#"{"arcp":"1.1","id":"x","type":"job.submit","payload":{"agent":"echo","input":"\ud800"}}"#,
        &deep,
    ];
    for text in nonsense {
        socket.raw(text).await;
        let told = socket.of("session.error").await;
        assert_eq!(told["payload"]["code"], "INVALID_REQUEST", "{text}: {told}");
        assert_eq!(told["payload"]["retryable"], false);
    }
    assert!(socket.send(Message::binary(vec![0xff, 0xfe])).await);
    assert_eq!(socket.of("session.error").await["payload"]["code"], "INVALID_REQUEST");
    // An envelope in a binary frame is accepted, and an unknown type is ignored.
    socket.say("session.teapot", json!({})).await;
    let ping = json!({ "arcp": "1.1", "id": "b", "type": "session.ping", "payload": { "nonce": "bytes" } });
    assert!(socket.send(Message::binary(ping.to_string().into_bytes())).await);
    assert_eq!(socket.next().await.unwrap()["payload"]["ping_nonce"], "bytes");
    let again = socket.ask("session.hello", hello(key, &FEATURES)).await;
    assert_eq!(again["payload"]["code"], "INVALID_REQUEST");
    assert!(socket.send(Message::Ping(vec![1, 2].into())).await);
    socket.submit(json!({ "agent": "echo" })).await;
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn a_first_frame_that_opens_nothing_is_answered_and_closes() {
    let (world, _hand, _key) = world().await;
    for text in [
        "{",
        r#"{"arcp":"1.1","id":"x","type":"session.ping","payload":{}}"#,
        r#"{"arcp":"1.1","id":"x","type":"odd"}"#,
    ] {
        let mut socket = Socket::connect(world.address, "/arcp").await;
        socket.raw(text).await;
        let told = socket.of("session.error").await;
        assert_eq!(told["payload"]["code"], "INVALID_REQUEST", "{text}");
        socket.closed().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_frame_of_a_mebibyte_is_read_and_a_larger_one_is_not() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo", "input": "x".repeat(760 * 1024) })).await;
    let claimed = hand.one().await;
    assert_eq!(claimed["input"].as_str().unwrap().len(), 760 * 1024);
    socket
        .refused("job.submit", json!({ "agent": "echo", "input": "x".repeat(800 * 1024) }), "INVALID_REQUEST")
        .await;
    let said = json!({ "arcp": "1.1", "id": "x", "type": "job.submit", "payload": { "agent": "echo", "input": "x".repeat(1024 * 1024) } });
    let _sent = socket.send(Message::text(said.to_string())).await;
    assert_eq!(socket.of("session.error").await["payload"]["code"], "INVALID_REQUEST");
    assert_eq!(u16::from(socket.closed().await.unwrap().code), 1009);
    // The session can be resumed.
    let mut again = socket.resume(&world, key, 0).await;
    again.submit(json!({ "agent": "echo" })).await;
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn a_large_result_stays_within_what_clients_can_read() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    for seq in 0..6 {
        let body = json!({ "result_id": claimed["result_id"], "chunk_seq": seq, "data": "y".repeat(690 * 1024),
            "encoding": "utf8", "more": seq < 5 });
        hand.events(&claimed, json!([{ "kind": "result_chunk", "body": body }])).await.ok();
    }
    let size = 6 * 690 * 1024;
    hand.tell(&claimed, "result", json!({ "result_id": claimed["result_id"], "result_size": size }))
        .await
        .ok();
    let got = socket.numbered(7).await;
    assert!(got.iter().all(|frame| frame.to_string().len() < 1_000_000));
    let data: usize =
        got[..6].iter().map(|frame| frame["payload"]["body"]["data"].as_str().unwrap().len()).sum();
    assert_eq!((data, &got[6]["payload"]["result_size"]), (size, &json!(size)));
    // Without `result_chunk`, a result too large to be inline is sent by its id.
    let mut plain = Socket::open_with(&world, "/arcp", hello(key, &["subscribe"])).await;
    plain.ask("job.subscribe", json!({ "job_id": claimed["job_id"], "history": true })).await;
    let end = &plain.numbered(1).await[0];
    assert_eq!((&end["event_seq"], &end["payload"]["result_id"]), (&json!(1), &claimed["result_id"]));
    drop((socket, plain));
    world.end().await;
}

#[tokio::test]
async fn a_stream_reaches_its_followers_in_one_encoding() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    // The second chunk is empty, the last, and says another encoding than the first.
    for (seq, data, encoding, more) in [(0, "AAEC/w==", "base64", true), (1, "", "utf8", false)] {
        let body = json!({ "result_id": claimed["result_id"], "chunk_seq": seq, "data": data, "encoding": encoding,
            "more": more });
        hand.events(&claimed, json!([{ "kind": "result_chunk", "body": body }])).await.ok();
    }
    hand.tell(&claimed, "result", json!({ "result_id": claimed["result_id"] })).await.ok();
    let got = socket.numbered(3).await;
    for frame in &got[..2] {
        assert_eq!(frame["payload"]["body"]["encoding"], "base64", "{frame}");
    }
    assert_eq!(got[2]["payload"]["result_size"], 4);
    // A session without chunks gets the same bytes, which are no text: by their id.
    let mut plain = Socket::open_with(&world, "/arcp", hello(key, &["subscribe"])).await;
    plain.ask("job.subscribe", json!({ "job_id": claimed["job_id"], "history": true })).await;
    assert_eq!(plain.numbered(1).await[0]["payload"]["result_id"], claimed["result_id"]);
    drop((socket, plain));
    world.end().await;
}

#[tokio::test]
async fn a_server_that_stops_sends_its_clients_elsewhere() {
    let (a, b) = World::two().await;
    a.agent("agent.client").await;
    let key = "key-of-agent.client";
    let hand = Hand::of(&b.any(), "echo@1.0.0").await;
    let mut socket = Socket::open(&a, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let stop = a.server.stop();
    let (close, ()) = tokio::join!(socket.closed(), stop);
    assert_eq!(u16::from(close.unwrap().code), 1012);
    let mut again = socket.resume(&b, key, 0).await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let end = &again.numbered(1).await[0];
    assert_eq!((&end["job_id"], &end["event_seq"]), (&job["job_id"], &json!(1)));
    drop(again);
    b.server.stop().await;
}

#[tokio::test]
async fn a_client_that_is_slow_to_read_is_heard_all_the_same() {
    let (world, hand, key) = world_with(&[("ENTENTE_ARCP_HEARTBEAT_SECONDS", "1")]).await;
    let mut slow = Socket::open(&world, key).await;
    slow.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    let big: Vec<_> = (0..40)
        .map(|n| json!({ "kind": "log", "body": { "level": "info", "message": format!("{n}{}", "z".repeat(40_000)) } }))
        .collect();
    for _ in 0..10 {
        hand.events(&claimed, json!(big)).await.ok();
    }
    // The client reads nothing for more than two heartbeat intervals, but sends pings.
    for n in 0..12 {
        slow.say("session.ping", json!({ "nonce": format!("n{n}") })).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(slow.numbered(400).await.len(), 400);
    drop(slow);
    world.end().await;
}

#[tokio::test]
async fn a_client_that_asks_too_often_waits_and_is_answered() {
    let (world, _hand, _key) = world().await;
    let admin = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.eager", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.eager/keys", json!({ "rate_per_second": 5 })).await.is(201);
    let mut socket = Socket::open(&world, made["key"].as_str().unwrap()).await;
    let began = std::time::Instant::now();
    let mut asked = Vec::new();
    for _ in 0..16 {
        asked.push(socket.say("session.list_jobs", json!({})).await);
    }
    for _ in 0..16 {
        let told = socket.next().await.unwrap();
        assert_eq!(told["type"], "session.jobs", "{told}");
        asked.retain(|id| told["payload"]["request_id"] != id.as_str());
    }
    assert!(asked.is_empty(), "{asked:?}");
    // A burst of two seconds' worth at once, the others at the rate limit.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    // Requests that it sent before the close are processed as well.
    for _ in 0..2 {
        socket.say("job.submit", json!({ "agent": "echo" })).await;
    }
    socket.say("session.close", json!({})).await;
    let told = [socket.next().await.unwrap(), socket.next().await.unwrap(), socket.next().await.unwrap()];
    assert_eq!(told.map(|frame| frame["type"].clone()), ["job.accepted", "job.accepted", "session.closed"]);
    world.end().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_costs_the_others_nothing() {
    let (world, hand, key) = world().await;
    let mut deaf = Socket::open(&world, key).await;
    deaf.submit(json!({ "agent": "echo" })).await;
    let slow = hand.one().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    let big: Vec<_> = (0..40)
        .map(|n| json!({ "kind": "log", "body": { "level": "info", "message": format!("{n}{}", "z".repeat(40_000)) } }))
        .collect();
    for _ in 0..10 {
        hand.events(&slow, json!(big)).await.ok();
    }
    let began = std::time::Instant::now();
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    socket.numbered(1).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // When it reads again, nothing is missing.
    let got = deaf.numbered(401).await;
    assert_eq!(got[400]["event_seq"], 401);
    drop((deaf, socket));
    world.end().await;
}
