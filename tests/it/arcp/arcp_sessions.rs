//! Sessions over WebSocket (ARCP §5 to §8, ARCP-W-14): opening, features, heartbeats, lists,
//! cancellation, dialect shapes.

mod crowd;
mod delegating;
mod fenced;
mod following;
mod relay;
mod resuming;
mod rough;
mod shapes;
mod stdio;
mod submitting;

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};

use entente_harness::jobs::{Hand, id};
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Client, Setup, World, json};

/// Starts a server with an echo agent and its worker; returns them with the key of a client.
pub async fn world() -> (World, Hand, &'static str) {
    world_with(&[]).await
}

/// Like [`world`], with these settings.
pub async fn world_with(settings: &[(&'static str, &'static str)]) -> (World, Hand, &'static str) {
    let world = World::with(Setup { settings: settings.to_vec(), ..Setup::default() }).await;
    world.agent("agent.client").await;
    let hand = Hand::of(&world.any(), "echo@1.0.0").await;
    (world, hand, "key-of-agent.client")
}

#[tokio::test]
async fn a_welcome_has_all_that_any_client_looks_for() {
    let (world, _hand, key) = world().await;
    let socket =
        Socket::open_with(&world, "/arcp?x=1", hello(key, &["ack", "heartbeat", "made_up", "progress"]))
            .await;
    let (frame, said) = (&socket.welcome, &socket.welcome["payload"]);
    assert!(frame["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(said["session_id"], frame["session_id"]);
    assert_eq!(said["runtime"]["name"], "entente");
    assert!(said["accepted_at"].as_str().unwrap().ends_with('Z'));
    assert!(said["resume_token"].as_str().unwrap().starts_with("rt_"));
    assert_eq!((&said["resume_window_sec"], &said["heartbeat_interval_sec"]), (&json!(600), &json!(30)));
    assert_eq!(said["capabilities"]["features"], json!(["heartbeat", "ack", "progress"]));
    let echo = json!([{ "name": "echo", "versions": ["1.0.0"], "default": "1.0.0" }]);
    assert_eq!(said["capabilities"]["agents"], echo);
    let bare = Socket::open_with(&world, "/arcp/", hello(key, &[])).await;
    assert!(bare.welcome["payload"].get("heartbeat_interval_sec").is_none());
    assert_ne!(bare.welcome["payload"]["resume_token"], said["resume_token"]);
    assert_eq!(world.anon().get("//health").await.is(200), json!({ "ok": true }));
    world.anon().get("//arcp").await.refused(422, "invalid_parameter");
    drop((socket, bare));
    world.end().await;
}

#[tokio::test]
async fn who_is_not_known_is_told_so_and_left() {
    let (world, _hand, _key) = world().await;
    let auths = [
        json!({ "scheme": "bearer", "token": "bad" }),
        json!({ "scheme": "bearer", "token": "" }),
        json!({ "scheme": "bearer", "token": 7 }),
        json!({ "scheme": "basic", "token": "key-of-agent.client" }),
        json!(null),
    ];
    for auth in auths {
        let mut said = hello("x", &FEATURES);
        said["auth"] = auth;
        let mut socket = Socket::connect(world.address, "/arcp").await;
        let told = socket.ask("session.hello", said).await;
        assert_eq!(told["type"], "session.error");
        assert_eq!(told["payload"]["code"], "UNAUTHENTICATED", "{told}");
        assert_eq!(told["payload"]["retryable"], false);
        socket.closed().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_signed_token_opens_a_session_for_its_principal() {
    let secret = "a secret that nobody guesses";
    let (world, _hand, _key) = world_with(&[("ENTENTE_ARCP_TOKEN_SECRET", secret)]).await;
    let token = |exp: i64, secret: &str| {
        let signed = format!("agent.far.away.{exp}");
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(signed.as_bytes());
        format!("{signed}.{}", entente_domain::canonical::hex(&mac.finalize().into_bytes()))
    };
    let soon = world.ctx().now().timestamp() + 3_600;
    let mut socket = Socket::open(&world, &token(soon, secret)).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let listed = socket.ask("session.list_jobs", json!({})).await;
    assert_eq!(listed["payload"]["jobs"][0]["job_id"], job["job_id"]);
    for bad in
        [token(soon - 7_200, secret), token(soon, "another secret of mine"), "agent.far.away.1".to_owned()]
    {
        let mut socket = Socket::connect(world.address, "/arcp").await;
        let told = socket.ask("session.hello", hello(&bad, &FEATURES)).await;
        assert_eq!(told["payload"]["code"], "UNAUTHENTICATED");
    }
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn a_feature_that_was_not_agreed_on_is_not_used_by_either_side() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open_with(&world, "/arcp", hello(key, &[])).await;
    socket.refused("session.list_jobs", json!({}), "INVALID_REQUEST").await;
    socket.refused("job.subscribe", json!({ "job_id": "job_x" }), "INVALID_REQUEST").await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    let chunk = |seq, data, more| {
        json!({ "kind": "result_chunk", "body": { "result_id": claimed["result_id"], "chunk_seq": seq, "data": data,
            "encoding": "utf8", "more": more } })
    };
    let told = json!([
        { "kind": "progress", "body": { "current": 1 } }, { "kind": "log", "body": { "level": "info", "message": "m" } },
        chunk(0, "to", true), chunk(1, "gether", false),
    ]);
    hand.events(&claimed, told).await.ok();
    hand.tell(&claimed, "result", json!({ "result_id": claimed["result_id"] })).await.ok();
    let got = socket.numbered(2).await;
    assert_eq!(entente_harness::socket::seqs(&got), [1, 2]);
    assert_eq!(got[0]["payload"]["kind"], "log");
    assert_eq!((&got[1]["type"], &got[1]["payload"]["result"]), (&json!("job.result"), &json!("together")));
    assert!(got[1]["payload"].get("result_id").is_none());
    assert_eq!(got[1]["job_id"], job["job_id"]);
    drop(socket);
    world.end().await;
}

#[tokio::test]
async fn heartbeats_go_both_ways_and_count_for_nothing() {
    let (world, hand, key) = world_with(&[("ENTENTE_ARCP_HEARTBEAT_SECONDS", "1")]).await;
    let mut socket = Socket::open(&world, key).await;
    assert_eq!(socket.welcome["payload"]["heartbeat_interval_sec"], 1);
    socket.say("session.ping", json!({ "nonce": "p_mine", "sent_at": "2026-05-13T19:42:13.000Z" })).await;
    let pong = socket.of("session.pong").await;
    assert_eq!(pong["payload"]["ping_nonce"], "p_mine");
    assert!(
        pong["payload"]["received_at"].as_str().unwrap().ends_with('Z') && pong.get("event_seq").is_none()
    );
    let began = std::time::Instant::now();
    let ping = socket.of("session.ping").await;
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(!ping["payload"]["nonce"].as_str().unwrap().is_empty());
    // From here on the client answers no pings.
    socket.polite = false;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    let close = socket.closed().await.unwrap();
    assert_eq!(&*close.reason, "HEARTBEAT_LOST");
    let waited = began.elapsed();
    assert!(waited > Duration::from_millis(1_900) && waited < Duration::from_secs(6), "{waited:?}");
    // The job is unaffected, and the session can be resumed.
    hand.events(&claimed, json!([{ "kind": "log", "body": { "level": "info", "message": "m" } }])).await.ok();
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let mut again = socket.resume(&world, key, 0).await;
    let got = again.numbered(2).await;
    assert_eq!(entente_harness::socket::seqs(&got), [1, 2]);
    assert_eq!(got[1]["job_id"], job["job_id"]);
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn a_list_is_the_clients_own_filtered_and_in_pages() {
    let (world, hand, key) = world().await;
    Hand::of(&world.any(), "other@2.0.0").await;
    let mut socket = Socket::open(&world, key).await;
    let mut jobs = Vec::new();
    for n in 0..7 {
        world.clock.advance(1);
        let agent = if n % 2 == 0 { "echo" } else { "other" };
        jobs.push(id(&socket.submit(json!({ "agent": agent })).await).to_owned());
    }
    let running = hand.claim(1).await;
    let frame = socket.ask("session.list_jobs", json!({ "limit": 3, "cursor": null })).await;
    assert_eq!(frame["type"], "session.jobs");
    let first = &frame["payload"];
    let ids = |page: &entente_harness::Value| -> Vec<String> {
        page["jobs"].as_array().unwrap().iter().map(|job| id(job).to_owned()).collect()
    };
    let mut seen = ids(first);
    // A job submitted meanwhile does not shift the pages.
    socket.submit(json!({ "agent": "echo" })).await;
    let mut cursor = first["next_cursor"].clone();
    while !cursor.is_null() {
        let page = socket.ask("session.list_jobs", json!({ "limit": 3, "cursor": cursor })).await;
        seen.extend(ids(&page["payload"]));
        cursor = page["payload"]["next_cursor"].clone();
    }
    jobs.reverse();
    assert_eq!(seen, jobs);
    let of = async |socket: &mut Socket, filter| {
        let page = socket.ask("session.list_jobs", json!({ "filter": filter })).await["payload"].clone();
        assert!(page.as_object().unwrap().contains_key("next_cursor"));
        for job in page["jobs"].as_array().unwrap() {
            assert_eq!(job["created_at"], job["submitted_at"]);
            assert!(
                job["lease"].is_object() && job["last_event_seq"].is_i64() && job["trace_id"].is_string()
            );
            assert!(job.as_object().unwrap().contains_key("parent_job_id"));
        }
        ids(&page).len()
    };
    assert_eq!(of(&mut socket, json!({ "agent": "other" })).await, 3);
    assert_eq!(of(&mut socket, json!({ "agent": "other@2.0.0" })).await, 3);
    assert_eq!(of(&mut socket, json!({ "agent": "other@1.0.0" })).await, 0);
    assert_eq!(of(&mut socket, json!({ "status": ["running"] })).await, running.len());
    assert_eq!(of(&mut socket, json!({ "created_after": "2026-11-21T08:00:05Z" })).await, 3);
    assert_eq!(of(&mut socket, json!({ "created_before": "2026-11-21T08:00:03Z" })).await, 2);
    for bad in [json!({ "limit": 0 }), json!({ "limit": "x" }), json!({ "filter": { "status": ["odd"] } })] {
        socket.refused("session.list_jobs", bad, "INVALID_REQUEST").await;
    }
    world.agent("agent.stranger").await;
    let mut stranger = Socket::open(&world, "key-of-agent.stranger").await;
    assert_eq!(of(&mut stranger, json!({})).await, 0);
    drop((socket, stranger));
    world.end().await;
}

#[tokio::test]
async fn only_the_session_that_submitted_a_job_cancels_it() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let mut second = Socket::open(&world, key).await;
    world.agent("agent.stranger").await;
    let mut stranger = Socket::open(&world, "key-of-agent.stranger").await;
    let waiting = socket.submit(json!({ "agent": "echo" })).await;
    let said = json!({ "job_id": waiting["job_id"], "reason": "enough" });
    let refused = second.refused("job.cancel", said.clone(), "PERMISSION_DENIED").await;
    assert_eq!(refused["job_id"], waiting["job_id"]);
    let foreign = stranger.refused("job.cancel", said.clone(), "JOB_NOT_FOUND").await;
    let nobodys = stranger
        .refused("job.cancel", json!({ "job_id": "job_01J9ZK4T6Q8R2V5X7Y9B1C3D5F" }), "JOB_NOT_FOUND")
        .await;
    assert_eq!(foreign["message"], nobodys["message"]);
    // A pending job ends at once: first the response, then its end.
    let told = socket.ask("job.cancel", said).await;
    assert_eq!((&told["type"], &told["job_id"]), (&json!("job.cancelled"), &waiting["job_id"]));
    let end = &socket.numbered(1).await[0];
    assert_eq!(end["type"], "job.error");
    assert_eq!(
        (&end["payload"]["code"], &end["payload"]["final_status"]),
        (&json!("CANCELLED"), &json!("cancelled"))
    );
    assert_eq!(hand.claim(9).await.len(), 0);
    // A running job is asked to stop.
    let running = socket.submit(json!({ "agent": "echo" })).await;
    let claimed = hand.one().await;
    let said = json!({ "job_id": running["job_id"] });
    assert_eq!(socket.ask("job.cancel", said.clone()).await["type"], "job.cancelled");
    socket.silent().await;
    hand.tell(&claimed, "error", json!({ "code": "CANCELLED", "message": "stopped" })).await.ok();
    assert_eq!(socket.numbered(1).await[0]["payload"]["code"], "CANCELLED");
    socket.refused("job.cancel", said, "INVALID_REQUEST").await;
    drop((socket, second, stranger));
    world.end().await;
}

#[tokio::test]
async fn close_is_answered_bye_is_not_and_jobs_run_on() {
    let (world, hand, key) = world().await;
    let mut socket = Socket::open(&world, key).await;
    let job = socket.submit(json!({ "agent": "echo" })).await;
    socket.say("session.close", json!({})).await;
    assert_eq!(socket.of("session.closed").await["payload"], json!({}));
    socket.closed().await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    let mut again = socket.resume(&world, key, 0).await;
    assert_eq!(again.numbered(1).await[0]["job_id"], job["job_id"]);
    again.say("session.bye", json!({ "reason": "client.close" })).await;
    again.closed().await;
    world.end().await;
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_done_and_answered_before_it() {
    let (world, _hand, key) = world().await;
    let mut viewer = Socket::open(&world, key).await;
    let mut jobs = 0;
    for end in ["session.close", "session.bye", ""] {
        let mut socket = Socket::open(&world, key).await;
        // The table lock delays the submits, so that all frames are read before any is answered.
        let mut held = world.hold().await;
        sqlx::query("LOCK TABLE jobs IN EXCLUSIVE MODE").execute(&mut *held).await.unwrap();
        for _ in 0..3 {
            socket.say("job.submit", json!({ "agent": "echo" })).await;
        }
        if end.is_empty() {
            socket.send(tokio_tungstenite::tungstenite::Message::Close(None)).await;
        } else {
            socket.say(end, json!({})).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        held.commit().await.unwrap();
        jobs += 3;
        if !end.is_empty() {
            for _ in 0..3 {
                assert_eq!(socket.next().await.unwrap()["type"], "job.accepted", "{end}");
            }
            let last = socket.next().await.map(|frame| frame["type"].clone());
            assert_eq!(last, (end == "session.close").then(|| json!("session.closed")));
        }
        let began = std::time::Instant::now();
        loop {
            let listed = viewer.ask("session.list_jobs", json!({})).await;
            if listed["payload"]["jobs"].as_array().unwrap().len() == jobs {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(5), "after {end:?}: {listed}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    drop(viewer);
    world.end().await;
}

#[tokio::test]
async fn a_principal_has_no_more_sessions_than_it_may() {
    let (world, _hand, key) = world_with(&[("ENTENTE_ARCP_SESSIONS_PER_PRINCIPAL", "2")]).await;
    let (mut one, two) = (Socket::open(&world, key).await, Socket::open(&world, key).await);
    let mut third = Socket::connect(world.address, "/arcp").await;
    let told = third.ask("session.hello", hello(key, &FEATURES)).await;
    assert_eq!(told["payload"]["code"], "PERMISSION_DENIED");
    third.closed().await;
    world.agent("agent.other").await;
    let other = Socket::open(&world, "key-of-agent.other").await;
    one.say("session.close", json!({})).await;
    one.closed().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let third = Socket::open(&world, key).await;
    // A resume does not bypass the limit: it succeeds only when a slot is free, or for a session that is connected.
    let mut said = hello(key, &FEATURES);
    said["resume"] = json!({ "session_id": one.session(),
        "resume_token": one.welcome["payload"]["resume_token"], "last_event_seq": 0 });
    let mut back = Socket::connect(world.address, "/arcp").await;
    assert_eq!(back.ask("session.hello", said).await["payload"]["code"], "PERMISSION_DENIED");
    let mut third = third.resume(&world, key, 0).await;
    third.say("session.close", json!({})).await;
    third.closed().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let one = one.resume(&world, key, 0).await;
    drop((one, two, other));
    world.end().await;
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_its_sessions() {
    let (world, _hand, _key) = world().await;
    let admin: Client = world.admin().await;
    admin.post("/principals", json!({ "id": "agent.short", "kind": "agent" })).await.is(201);
    let made = admin.post("/principals/agent.short/keys", json!({})).await.is(201);
    let mut socket = Socket::open(&world, made["key"].as_str().unwrap()).await;
    let revoked = admin.delete(&format!("/keys/{}", made["record"]["id"].as_str().unwrap())).await;
    assert!(revoked.status < 300, "{revoked:?}");
    socket.closed().await;
    // Its resume token is invalid too.
    let mut back = Socket::connect(world.address, "/arcp").await;
    let said = json!({ "session_id": socket.session(), "resume_token": socket.welcome["payload"]["resume_token"], "last_event_seq": 0 });
    let told = back.ask("session.resume", said).await;
    assert_eq!(told["payload"]["code"], "RESUME_WINDOW_EXPIRED");
    world.end().await;
}
