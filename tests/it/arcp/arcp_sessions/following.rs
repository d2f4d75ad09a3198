//! Subscribing (ARCP §7.6): permissions, replay, one sequence of numbers, no duplicates, and the job's log.

use std::time::{Duration, Instant};

use super::{world, world_with};
use entente_harness::socket::{Socket, hello, seqs};
use entente_harness::{Value, World, json};

fn logs(from: usize, count: usize) -> Value {
    let log = |n: usize| json!({ "kind": "log", "body": { "level": "info", "message": n.to_string() } });
    (from..from + count).map(log).collect()
}

fn messages(frames: &[Value]) -> Vec<String> {
    let message = |frame: &Value| frame["payload"]["body"]["message"].as_str().unwrap_or("-").to_owned();
    frames.iter().map(message).collect()
}

#[tokio::test]
async fn a_late_subscriber_sees_all_of_it_and_its_end() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job =
        socket.submit(json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD:1.00"] } })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(0, 4)).await.ok();
    socket.numbered(4).await;
    drop(socket);
    hand.events(&claimed, logs(4, 3)).await.ok();
    hand.tell(&claimed, "result", json!({ "result": "all" })).await.ok();
    let mut late = Socket::open(&world, key).await;
    let told = late.ask("job.subscribe", json!({ "job_id": job["job_id"], "history": true })).await;
    assert_eq!((&told["type"], &told["job_id"]), (&json!("job.subscribed"), &job["job_id"]));
    let said = &told["payload"];
    assert_eq!((&said["current_status"], &said["agent"]), (&json!("success"), &json!("echo@1.0.0")));
    assert_eq!((&said["replayed"], &said["subscribed_from"]), (&json!(true), &json!(0)));
    assert_eq!((&said["budget"], &said["trace_id"]), (&json!({ "USD": 1 }), &job["trace_id"]));
    assert!(said["lease"].is_object() && said.as_object().unwrap().contains_key("parent_job_id"));
    assert!(said.get("credentials").is_none());
    let got = late.numbered(8).await;
    assert_eq!(seqs(&got), (1..=8).collect::<Vec<i64>>());
    assert_eq!(messages(&got[..7]), ["0", "1", "2", "3", "4", "5", "6"]);
    assert_eq!(got[7]["payload"]["result"], "all");
    // From a number of the submitting session on. Without history, a subscription to an ended job delivers nothing.
    let from = json!({ "job_id": job["job_id"], "history": true, "from_event_seq": 6 });
    // The answer is in the numbers of the session that asked, as what follows is.
    assert_eq!(late.ask("job.subscribe", from).await["payload"]["subscribed_from"], 8);
    let got = late.numbered(2).await;
    assert_eq!((seqs(&got), messages(&got[..1])), (vec![9, 10], vec!["6".to_owned()]));
    let told = late.ask("job.subscribe", json!({ "job_id": job["job_id"] })).await;
    assert_eq!(
        (&told["payload"]["replayed"], &told["payload"]["subscribed_from"]),
        (&json!(false), &json!(10))
    );
    late.silent().await;
    drop(late);
    world.end().await;
}

#[tokio::test]
async fn a_subscription_begins_at_a_number_of_the_session_that_asked() {
    let (world, hand, key) = world().await;
    let mut one = Socket::open(&world, key).await;
    let mut two = Socket::open(&world, key).await;
    let first = one.submit(json!({ "agent": "echo" })).await;
    let of_first = hand.one().await;
    hand.events(&of_first, logs(0, 7)).await.ok();
    one.numbered(7).await;
    two.submit(json!({ "agent": "echo" })).await;
    let of_second = hand.one().await;
    hand.events(&of_second, logs(0, 2)).await.ok();
    two.numbered(2).await;
    for (history, replay) in [(false, 0), (true, 7)] {
        let before = if history { 3 } else { 2 };
        let said = two.ask("job.subscribe", json!({ "job_id": first["job_id"], "history": history })).await;
        assert_eq!(said["payload"]["subscribed_from"], before, "neither 7 nor 8, which are the submitter's");
        hand.events(&of_first, logs(100, 1)).await.ok();
        let got = two.numbered(replay + 1 + usize::from(history)).await;
        assert_eq!(seqs(&got)[0], before + 1, "what follows comes right behind it");
    }
    // After a resume it counts on.
    let total = 12;
    let mut again = two.resume(&world, key, total).await;
    let said = again.ask("job.subscribe", json!({ "job_id": first["job_id"] })).await;
    assert_eq!(said["payload"]["subscribed_from"], total);
    drop((one, two, again));
    world.end().await;
}

#[tokio::test]
async fn own_jobs_and_subscriptions_share_one_space_of_numbers() {
    let (world, hand, key) = world().await;
    let mut one = Socket::open(&world, key).await;
    // Without the `ack` feature there are no back-pressure events.
    let mut two = Socket::open_with(&world, "/arcp", hello(key, &["subscribe", "heartbeat"])).await;
    let first = one.submit(json!({ "agent": "echo" })).await;
    let of_first = hand.one().await;
    two.submit(json!({ "agent": "echo" })).await;
    let of_second = hand.one().await;
    two.ask("job.subscribe", json!({ "job_id": first["job_id"] })).await;
    for n in 0..30 {
        let (a, b) = (logs(n, 1), logs(100 + n, 2));
        tokio::join!(hand.events(&of_first, a), hand.events(&of_second, b));
    }
    let got = two.numbered(90).await;
    assert_eq!(seqs(&got), (1..=90).collect::<Vec<i64>>());
    let mut own: Vec<String> = messages(&got);
    own.sort();
    own.dedup();
    assert_eq!(own.len(), 61, "each event of both, once: {own:?}");
    // After a reconnect, the same frames with the same numbers.
    let mut again = two.resume(&world, key, 10).await;
    let replayed = again.numbered(80).await;
    let told = |frames: &[Value]| -> Vec<(i64, Value, Value)> {
        let told = |frame: &Value| {
            (frame["event_seq"].as_i64().unwrap(), frame["job_id"].clone(), frame["payload"].clone())
        };
        frames.iter().map(told).collect()
    };
    assert_eq!(told(&replayed), told(&got[10..]));
    again.say("job.unsubscribe", json!({ "job_id": first["job_id"] })).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    hand.events(&of_first, logs(500, 3)).await.ok();
    hand.events(&of_second, logs(600, 1)).await.ok();
    assert_eq!(messages(&again.numbered(1).await), ["600"]);
    again.silent().await;
    drop((one, two, again));
    world.end().await;
}

#[tokio::test]
async fn ones_own_job_is_replayed_under_fresh_numbers_and_goes_on_once() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(0, 3)).await.ok();
    socket.numbered(3).await;
    let ask = json!({ "job_id": job["job_id"], "history": true, "from_event_seq": 1 });
    let said = socket.ask("job.subscribe", ask).await["payload"].clone();
    assert_eq!((&said["replayed"], &said["subscribed_from"]), (&json!(true), &json!(3)));
    let got = socket.numbered(2).await;
    assert_eq!((seqs(&got), messages(&got)), (vec![4, 5], vec!["1".to_owned(), "2".to_owned()]));
    hand.events(&claimed, logs(3, 2)).await.ok();
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let got = socket.numbered(3).await;
    assert_eq!(
        (seqs(&got), messages(&got)),
        (vec![6, 7, 8], vec!["3".to_owned(), "4".to_owned(), "-".to_owned()])
    );
    socket.silent().await;
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn the_history_of_ones_own_job_comes_before_what_happens_meanwhile() {
    let (world, hand, key) = world().await;
    // Without the `ack` feature there are no back-pressure events.
    let mut socket = Socket::open_with(&world, "/arcp", hello(key, &["subscribe", "heartbeat"])).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    // More than are numbered at once, and than are read at once.
    for from in (0..2_500).step_by(100) {
        hand.events(&claimed, logs(from, 100)).await.ok();
    }
    socket.numbered(2_500).await;
    for round in 0..3 {
        socket.ask("job.subscribe", json!({ "job_id": job["job_id"], "history": true })).await;
        hand.events(&claimed, logs(2_500 + round, 1)).await.ok();
        let got = socket.numbered(2_501 + round).await;
        let all: Vec<String> = (0..=2_500 + round).map(|n| n.to_string()).collect();
        assert_eq!(messages(&got), all, "round {round}");
    }
    socket.silent().await;
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn the_replay_waits_for_the_pong_behind_the_answer() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(0, 3)).await.ok();
    let mut late = Socket::open(&world, key).await;
    late.polite = false;
    let ask = json!({ "job_id": job["job_id"], "history": true });
    late.ask("job.subscribe", ask.clone()).await;
    let ping = late.next().await.unwrap();
    assert_eq!(ping["type"], "session.ping");
    let quiet = tokio::time::timeout(Duration::from_millis(100), late.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    late.say("session.pong", json!({ "ping_nonce": ping["payload"]["nonce"] })).await;
    assert_eq!(seqs(&late.numbered(3).await), [1, 2, 3]);
    // A client that never sends the pong waits for a moment only.
    let began = Instant::now();
    late.ask("job.subscribe", ask.clone()).await;
    assert_eq!(seqs(&late.numbered(3).await), [4, 5, 6]);
    assert!(began.elapsed() < Duration::from_secs(2));
    let mut plain = Socket::open_with(&world, "/arcp", hello(key, &["subscribe"])).await;
    plain.ask("job.subscribe", ask).await;
    assert_eq!(plain.next().await.unwrap()["event_seq"], 1, "no pings were agreed on");
    drop((socket, late, plain));
    world.end().await;
}

#[tokio::test]
async fn nobody_follows_anothers_job_and_every_try_is_on_the_record() {
    let (world, _hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    world.agent("agent.stranger").await;
    let mut stranger = Socket::open(&world, "key-of-agent.stranger").await;
    let foreign =
        stranger.refused("job.subscribe", json!({ "job_id": job["job_id"] }), "JOB_NOT_FOUND").await;
    let unknown = json!({ "job_id": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" });
    assert_eq!(
        stranger.refused("job.subscribe", unknown, "JOB_NOT_FOUND").await["message"],
        foreign["message"]
    );
    stranger.refused("job.subscribe", json!({}), "INVALID_REQUEST").await;
    socket.ask("job.subscribe", json!({ "job_id": job["job_id"] })).await;
    let log = world.admin().await.get("/audit?event_type=job.observed").await.ok();
    let told: Vec<(Value, Value)> = log
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["event_type"] == "job.observed")
        .map(|event| {
            assert_eq!(event["payload"]["job_id"], job["job_id"]);
            assert_eq!(event["payload"]["target_principal"], "agent.client");
            (event["payload"]["subscriber"].clone(), event["payload"]["decision"].clone())
        })
        .collect();
    let (denied, allowed) =
        ((json!("agent.stranger"), json!("denied")), (json!("agent.client"), json!("allowed")));
    assert!(told.contains(&denied) && told.contains(&allowed) && told.len() == 2, "{told:?}");
    drop((socket, stranger));
    world.end().await;
}

#[tokio::test]
async fn an_open_policy_lets_others_look_and_never_cancel() {
    for (policy, follows) in [("list", false), ("subscribe", true)] {
        let (world, hand, key) = world_with(&[("ENTENTE_ARCP_OPEN_POLICY", policy)]).await;
        let mut socket = Socket::open(&world, key).await;
        let job = socket.submit(json!({ "agent": "echo" })).await;
        let claimed = hand.one().await;
        hand.events(&claimed, logs(0, 2)).await.ok();
        world.agent("agent.looker").await;
        let mut looker = Socket::open(&world, "key-of-agent.looker").await;
        let listed = looker.ask("session.list_jobs", json!({})).await;
        assert_eq!(listed["payload"]["jobs"][0]["job_id"], job["job_id"]);
        let ask = json!({ "job_id": job["job_id"], "history": true });
        if follows {
            assert_eq!(looker.ask("job.subscribe", ask).await["payload"]["replayed"], true);
            hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
            assert_eq!(seqs(&looker.numbered(3).await), [1, 2, 3]);
        } else {
            looker.refused("job.subscribe", ask, "PERMISSION_DENIED").await;
            looker.refused("job.cancel", json!({ "job_id": job["job_id"] }), "PERMISSION_DENIED").await;
        }
        drop((socket, looker));
        world.end().await;
    }
}

#[tokio::test]
async fn who_falls_behind_is_told_so_once_on_the_job() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(0, 50)).await.ok();
    let got = socket.numbered(51).await;
    assert_eq!(seqs(&got), (1..=51).collect::<Vec<i64>>());
    let press = &got[50];
    assert_eq!((&press["job_id"], &press["payload"]["kind"]), (&job["job_id"], &json!("status")));
    assert_eq!(press["payload"]["body"]["phase"], "back_pressure");
    hand.events(&claimed, logs(50, 60)).await.ok();
    assert!(messages(&socket.numbered(60).await).iter().all(|text| text.parse::<u32>().is_ok()), "once");
    socket.say("session.ack", json!({ "last_processed_seq": 111 })).await;
    socket.say("session.ping", json!({ "nonce": "n" })).await;
    socket.of("session.pong").await;
    hand.events(&claimed, logs(110, 50)).await.ok();
    assert_eq!(socket.numbered(51).await[50]["payload"]["body"]["phase"], "back_pressure");
    // The event belongs to this session only, and is replayed on a resume.
    let mut other = Socket::open_with(&world, "/arcp", hello(key, &["subscribe"])).await;
    other.ask("job.subscribe", json!({ "job_id": job["job_id"], "history": true })).await;
    let got = other.numbered(160).await;
    assert!(got.iter().all(|frame| frame["payload"]["kind"] == "log"));
    let mut again = socket.resume(&world, key, 161).await;
    assert_eq!(again.numbered(1).await[0]["payload"]["body"]["phase"], "back_pressure");
    drop((socket, other, again));
    world.end().await;
}

/// Waits until a query returns this count.
async fn until(world: &World, sql: &'static str, count: i64) {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let found: i64 = sqlx::query_scalar(sql).fetch_one(&world.ctx().pool).await.unwrap();
        if found == count {
            return;
        }
        assert!(Instant::now() < end, "{found} instead of {count}: {sql}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn who_leaves_while_its_events_are_numbered_holds_nobody_up() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    hand.events(&claimed, logs(0, 4)).await.ok();
    socket.numbered(4).await;
    let mut other = Socket::open(&world, key).await;
    // The other session's events cannot be numbered yet; meanwhile it holds its own row.
    let mut lock = world.hold().await;
    sqlx::query("LOCK TABLE session_frames IN SHARE MODE").execute(&mut *lock).await.unwrap();
    other.ask("job.subscribe", json!({ "job_id": job["job_id"], "history": true })).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until(&world, waiting, 1).await;
    drop(other);
    until(&world, waiting, 2).await;
    lock.rollback().await.unwrap();
    until(&world, "SELECT count(*) FROM sessions WHERE NOT attached", 1).await;
    drop(socket);
    world.end().await;
}
