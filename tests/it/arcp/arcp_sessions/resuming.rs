//! Resuming (ARCP §6.3, §6.5, §8.3): the same session and numbers without gaps, on any server; and events that are
//! no longer kept.

use std::time::Duration;

use super::{world, world_with};
use entente_harness::jobs::Hand;
use entente_harness::socket::{FEATURES, Socket, hello, seqs};
use entente_harness::{Value, World, json};

fn logs(count: usize) -> Value {
    (0..count)
        .map(|n| json!({ "kind": "log", "body": { "level": "info", "message": n.to_string() } }))
        .collect()
}

fn texts(frames: &[Value]) -> Vec<Value> {
    frames.iter().map(|frame| frame["payload"].clone()).collect()
}

#[tokio::test]
async fn a_resume_brings_what_was_missed_under_the_same_numbers() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(5)).await.ok();
    let before = socket.numbered(5).await;
    // The session keeps numbering while no client is connected.
    let (session, mut cut) = (socket.session().to_owned(), socket);
    cut.send(tokio_tungstenite::tungstenite::Message::Close(None)).await;
    hand.events(&claimed, logs(5)).await.ok();
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let mut again = cut.resume(&world, key, 2).await;
    assert_eq!(again.session(), session);
    assert_ne!(again.welcome["payload"]["resume_token"], cut.welcome["payload"]["resume_token"]);
    let after = again.numbered(9).await;
    assert_eq!(seqs(&after), (3..=11).collect::<Vec<i64>>());
    assert_eq!(texts(&after[..3]), texts(&before[2..]));
    assert_eq!(after[8]["type"], "job.result");
    // The old token is no longer valid, and a wrong token does not end the session.
    for token in [cut.welcome["payload"]["resume_token"].clone(), json!("rt_wrong"), json!("")] {
        let mut said = hello(key, &FEATURES);
        said["resume"] = json!({ "session_id": session, "resume_token": token, "last_event_seq": 0 });
        let mut wrong = Socket::connect(world.address, "/arcp").await;
        let told = wrong.ask("session.hello", said).await;
        assert_eq!(told["payload"]["code"], "RESUME_WINDOW_EXPIRED");
        wrong.closed().await;
    }
    again.submit(json!({ "agent": "echo" })).await;
    // A key of another principal cannot resume it, even with the right token.
    world.agent("agent.thief").await;
    let mut said = hello("key-of-agent.thief", &FEATURES);
    said["resume"] = json!({ "session_id": session, "resume_token": again.welcome["payload"]["resume_token"], "last_event_seq": 0 });
    let mut thief = Socket::connect(world.address, "/arcp").await;
    assert_eq!(thief.ask("session.hello", said).await["payload"]["code"], "RESUME_WINDOW_EXPIRED");
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn a_welcome_that_is_lost_does_not_cost_the_session() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let mut said = hello(key, &FEATURES);
    said["resume"] = json!({ "session_id": socket.session(),
        "resume_token": socket.welcome["payload"]["resume_token"], "last_event_seq": 0 });
    for _ in 0..3 {
        // The client disconnects before the welcome, so nobody receives the new token.
        let mut held = world.hold().await;
        sqlx::query("SELECT 1 FROM sessions FOR UPDATE").execute(&mut *held).await.unwrap();
        let mut hasty = Socket::connect(world.address, "/arcp").await;
        hasty.say("session.hello", said.clone()).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        hasty.send(tokio_tungstenite::tungstenite::Message::Close(None)).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        held.commit().await.unwrap();
        // A resume with the previous token is delayed for a moment.
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    let count: i64 =
        sqlx::query_scalar("SELECT connection FROM sessions").fetch_one(&world.ctx().pool).await.unwrap();
    assert_eq!(count, 4, "the session was taken up three times");
    let mut again = socket.resume(&world, key, 0).await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(seqs(&again.numbered(1).await), [1]);
    // Once the client has used the new token, the old one is invalid, connected or not.
    again.say("session.bye", json!({})).await;
    again.closed().await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    let mut late = Socket::connect(world.address, "/arcp").await;
    assert_eq!(late.ask("session.hello", said).await["payload"]["code"], "RESUME_WINDOW_EXPIRED");
    world.end().await;
}

#[tokio::test]
async fn the_specifications_own_resume_needs_nothing_but_its_token() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open_with(&world, "/arcp", hello(key, &["ack", "subscribe"])).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    socket.numbered(1).await;
    let said = json!({
        "session_id": socket.session(), "resume_token": socket.welcome["payload"]["resume_token"], "last_event_seq": 0,
    });
    let mut again = Socket::connect(world.address, "/arcp").await;
    again.say("session.resume", said).await;
    let welcome = again.of("session.welcome").await;
    assert_eq!(welcome["session_id"], socket.session());
    assert_eq!(welcome["payload"]["capabilities"]["features"], json!(["ack", "subscribe"]));
    assert_eq!(seqs(&again.numbered(1).await), [1]);
    again.submit(json!({ "agent": "echo" })).await;
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn a_resume_takes_over_from_a_connection_that_hangs() {
    let (world, hand, key) = world().await;
    let mut hangs = Socket::open(&world, key).await;
    hangs.submit(json!({ "agent": "echo" })).await;
    let mut again = hangs.resume(&world, key, 0).await;
    let close = hangs.closed().await.unwrap();
    assert_eq!(&*close.reason, "resumed on another connection");
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(seqs(&again.numbered(1).await), [1]);
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn another_server_takes_a_session_up_at_once() {
    let (a, b) = World::two().await;
    a.agent("agent.client").await;
    let key = "key-of-agent.client";
    let hand = Hand::of(&b.any(), "echo@1.0.0").await;
    let mut socket = Socket::open(&a, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    // Events of a worker on the other server arrive here.
    let claimed = hand.one().await;
    hand.events(&claimed, logs(3)).await.ok();
    assert_eq!(seqs(&socket.numbered(3).await), [1, 2, 3]);
    let mut again = socket.resume(&b, key, 1).await;
    let began = std::time::Instant::now();
    socket.closed().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(seqs(&again.numbered(2).await), [2, 3]);
    let mut follower = Socket::open(&a, key).await;
    let told = follower.ask("job.subscribe", json!({ "job_id": job["job_id"], "history": true })).await;
    assert_eq!(told["type"], "job.subscribed");
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(seqs(&again.numbered(1).await), [4]);
    assert_eq!(seqs(&follower.numbered(4).await), [1, 2, 3, 4]);
    drop((again, follower));
    b.server.stop().await;
    a.server.stop().await;
}

#[tokio::test]
async fn what_was_acknowledged_or_is_too_old_is_not_resumed() {
    let (world, hand, key) = world_with(&[("ENTENTE_ARCP_RESUME_SECONDS", "60")]).await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(6)).await.ok();
    socket.numbered(6).await;
    socket.say("session.ack", json!({ "last_processed_seq": 4 })).await;
    // The pong shows that the ack before it was processed.
    socket.say("session.ping", json!({ "nonce": "n" })).await;
    socket.of("session.pong").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let try_from = async |last: i64| {
        let mut said = hello(key, &FEATURES);
        said["resume"] = json!({ "session_id": socket.session(),
            "resume_token": socket.welcome["payload"]["resume_token"], "last_event_seq": last });
        let mut again = Socket::connect(world.address, "/arcp").await;
        again.ask("session.hello", said).await["payload"]["code"].clone()
    };
    assert_eq!(try_from(1).await, "RESUME_WINDOW_EXPIRED", "what comes after 1 was let go");
    assert_eq!(try_from(7).await, "RESUME_WINDOW_EXPIRED", "there is no 7");
    let again = socket.resume(&world, key, 4).await;
    let token = again.welcome["payload"]["resume_token"].clone();
    drop(again);
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.clock.advance(61);
    let mut said = hello(key, &FEATURES);
    said["resume"] = json!({ "session_id": socket.session(), "resume_token": token, "last_event_seq": 4 });
    let mut late = Socket::connect(world.address, "/arcp").await;
    assert_eq!(late.ask("session.hello", said).await["payload"]["code"], "RESUME_WINDOW_EXPIRED");
    // Events that this session did not acknowledge are available to others who may see the job.
    let mut other = Socket::open(&world, key).await;
    other.ask("job.subscribe", json!({ "job_id": claimed["job_id"], "history": true })).await;
    assert_eq!(other.numbered(6).await.len(), 6);
    drop(other);
    world.end().await;
}

#[tokio::test]
async fn a_session_is_forgotten_with_its_last_job_and_not_before() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    socket.say("session.bye", json!({})).await;
    socket.closed().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let count = async || {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(&world.ctx().pool).await.unwrap();
        count
    };
    world.clock.advance(30);
    hand.beat(&[&claimed]).await;
    for _ in 0..30 {
        world.clock.advance(30);
        hand.beat(&[&claimed]).await;
    }
    world.sweep().await;
    assert_eq!(count().await, 1, "its job still counts there");
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    world.sweep().await;
    assert_eq!(count().await, 0);
    world.end().await;
}
