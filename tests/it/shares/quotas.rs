//! Quotas of principals and teams: requests in progress and bytes in a minute, whichever key, agent, server and door; who sets
//! them and who sees them. `quotas/storage.rs` has what is stored.

mod storage;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;

use entente_harness::desk::Desk;
use entente_harness::jobs::Hand;
use entente_harness::keys::{Made, key};
use entente_harness::mcp::{Era, Mcp};
use entente_harness::socket::{FEATURES, Socket, hello};
use entente_harness::{Client, Reply, Setup, Sse, Value, World, json, talk};

/// Sets the quotas of `principals/ID` or `teams/NAME`.
pub async fn limit(admin: &Client, whose: &str, limits: Value) -> Value {
    admin.put(&format!("/{whose}/quotas"), limits).await.ok()
}

/// Returns the quotas of `principals/ID` or `teams/NAME` with their use.
pub async fn quotas(client: &Client, whose: &str) -> Value {
    client.get(&format!("/{whose}/quotas")).await.ok()
}

/// Creates a principal with a key that has no rate limit and may act as the agents of its team.
pub async fn of(world: &World, admin: &Client, id: &str) -> Made {
    key(world, admin, id, json!({ "rate_per_second": 0, "act_as": [format!("{id}.*")] })).await
}

/// Polls until a condition holds.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Begins a request whose body does not end, and so is in progress until the stream is dropped.
fn begun(address: SocketAddr, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/intents HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: 200\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn number(reply: &Reply, header: &str) -> u64 {
    reply.header(header).parse().unwrap()
}

/// Asserts a refusal by a quota of open requests or bytes, and returns its message.
#[track_caller]
fn exceeded(reply: &Reply, limit: u64) -> String {
    let said = reply.refused(429, "rate_limited");
    assert_eq!((number(reply, "ratelimit-limit"), number(reply, "ratelimit-remaining")), (limit, 0));
    assert_eq!(number(reply, "ratelimit-reset"), number(reply, "retry-after"));
    said["message"].as_str().unwrap().to_owned()
}

/// Waits until so many requests of a principal or a team are in progress.
async fn under_way(admin: &Client, whose: &str, count: u64) {
    until("the requests are counted", async || quotas(admin, whose).await["open_requests"]["used"] == count)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_and_agents_of_a_principal_share_its_open_requests() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await;
    let other = of(&world, &admin, "agent.ada").await;
    let bob = of(&world, &admin, "agent.bob").await;
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 2 })).await;
    ada.client.get("/intents").await.ok();
    let held = [begun(world.address, &ada.secret), begun(world.address, &other.secret)];
    under_way(&admin, "principals/agent.ada", 2).await;
    for client in [&ada.client, &other.client, &other.client.acting_as("agent.ada.7")] {
        let refused = client.get("/intents").await;
        let message = exceeded(&refused, 2);
        assert_eq!(number(&refused, "retry-after"), 1);
        assert!(message.contains("The quota of principal:agent.ada is 2 requests under way"), "{message}");
        assert!(message.contains("PUT /api/v1/principals/agent.ada/quotas"), "{message}");
    }
    Mcp::new(&ada.client, Era::Stateless).request("tools/list", json!({})).await.refused(429, "rate_limited");
    bob.client.get("/intents").await.ok();
    // A refused request does not stay counted, and one that is over is not.
    assert_eq!(quotas(&admin, "principals/agent.ada").await["open_requests"]["used"], 2);
    let metrics = admin.get("//metrics").await;
    let line = metrics
        .text
        .lines()
        .find(|line| line.starts_with("entente_quota_refusals_total{quota=\"open_requests\"}"));
    let count: u64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 4 && !metrics.text.contains("agent.ada"), "{line:?}");
    // The quota raised, or taken back.
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 3 })).await;
    ada.client.get("/intents").await.ok();
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 1 })).await;
    ada.client.get("/intents").await.refused(429, "rate_limited");
    limit(&admin, "principals/agent.ada", json!({})).await;
    ada.client.get("/intents").await.ok();
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 2 })).await;
    drop(held);
    until("who hangs up is not counted", async || ada.client.get("/intents").await.status == 200).await;
    under_way(&admin, "principals/agent.ada", 0).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_are_no_more_than_the_quota() {
    let world = World::start().await;
    let admin = world.admin().await;
    let mut keys = Vec::new();
    for _ in 0..4 {
        keys.push(of(&world, &admin, "agent.ada").await);
    }
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 3 })).await;
    // Many keys of one principal, each with many requests that stay in progress.
    let held: Vec<TcpStream> =
        (0..40).flat_map(|_| keys.iter().map(|made| begun(world.address, &made.secret))).collect();
    let answers = held.into_iter().map(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
        tokio::task::spawn_blocking(move || {
            let mut head = [0; 32];
            let came = stream.read(&mut head).unwrap_or(0);
            (String::from_utf8_lossy(&head[..came]).into_owned(), stream)
        })
    });
    let answers: Vec<(String, TcpStream)> =
        join_all(answers).await.into_iter().map(|answer| answer.unwrap()).collect();
    let refused = answers.iter().filter(|answer| answer.0.starts_with("HTTP/1.1 429")).count();
    let waiting = answers.iter().filter(|answer| answer.0.is_empty()).count();
    assert_eq!((refused, waiting), (157, 3), "the others are told at once");
    assert_eq!(quotas(&admin, "principals/agent.ada").await["open_requests"]["used"], 3);
    drop(answers);
    under_way(&admin, "principals/agent.ada", 0).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_has_a_quota_of_what_its_members_do_together() {
    let world = World::start().await;
    let admin = world.admin().await;
    let (ada, bob) = (of(&world, &admin, "agent.ada").await, of(&world, &admin, "agent.bob").await);
    let carl = of(&world, &admin, "agent.carl").await;
    admin.put("/teams/red", json!({ "members": ["agent.ada", "agent.bob"] })).await.ok();
    limit(&admin, "teams/red", json!({ "open_requests": 2, "bytes_per_minute": 100_000_000 })).await;
    let held = [begun(world.address, &ada.secret), begun(world.address, &bob.secret)];
    under_way(&admin, "teams/red", 2).await;
    for made in [&ada, &bob] {
        let message = exceeded(&made.client.get("/intents").await, 2);
        assert!(message.contains("The quota of team:red is 2 requests"), "{message}");
        assert!(message.contains("PUT /api/v1/teams/red/quotas"), "{message}");
    }
    carl.client.get("/intents").await.ok();
    assert_eq!(quotas(&admin, "principals/agent.ada").await["open_requests"]["limit"], Value::Null);
    // Both hold: one's own is reached first.
    limit(&admin, "principals/agent.bob", json!({ "open_requests": 1 })).await;
    let message = exceeded(&bob.client.get("/intents").await, 1);
    assert!(message.contains("principal:agent.bob"), "{message}");
    // Who leaves the team is free of its quota; who joins is not.
    admin.put("/teams/red", json!({ "members": ["agent.bob", "agent.carl"] })).await.ok();
    ada.client.get("/intents").await.ok();
    exceeded(&carl.client.get("/intents").await, 2);
    // A removed team limits nobody, and another one of its name has no quota.
    admin.delete("/teams/red").await.ok();
    carl.client.get("/intents").await.ok();
    admin.put("/teams/red", json!({ "members": ["agent.carl"] })).await.ok();
    carl.client.get("/intents").await.ok();
    let team = quotas(&admin, "teams/red").await;
    assert_eq!((&team["open_requests"]["limit"], &team["set_by"]), (&Value::Null, &Value::Null), "{team}");
    drop(held);
    under_way(&admin, "principals/agent.ada", 0).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_or_streams_takes_no_place() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await;
    let (intent, channel) = talk(&ada.client, json!({})).await;
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 2 })).await;
    let streams = [
        Sse::open(&ada.client, &format!("/intents/{intent}/subscribe")).await,
        Sse::open(&ada.client, &format!("/intents/{intent}/subscribe")).await,
    ];
    let path = format!("/channels/{channel}/messages?since=cur_0&wait=20");
    // One after the other, so that only one is running before it waits.
    let polls = (0..6_u64).map(|n| {
        let (client, path) = (ada.client.clone(), path.clone());
        async move {
            sleep(Duration::from_millis(150 * n)).await;
            client.get(&path).await.ok()
        }
    });
    let meanwhile = async {
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(quotas(&admin, "principals/agent.ada").await["open_requests"]["used"], 0);
        for _ in 0..5 {
            ada.client.get("/intents").await.ok();
        }
        let message = json!({ "sender": "agent.ada", "payload": {} });
        ada.client.post(&format!("/channels/{channel}/messages"), message).await.is(201)
    };
    let (got, sent) = tokio::join!(join_all(polls), meanwhile);
    for page in got {
        assert_eq!(page[0]["id"], sent["id"]);
    }
    drop(streams);
    world.end().await;
}

/// Returns a body of so many bytes.
fn bytes(count: usize) -> String {
    let frame = json!({ "title": "" }).to_string().len();
    json!({ "title": " ".repeat(count - frame) }).to_string()
}

/// Sends a body without a length in pieces, and returns what is answered.
async fn chunked(address: SocketAddr, key: &str, pieces: usize, size: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/intents HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let piece = format!("{size:x}\r\n{}\r\n", " ".repeat(size));
    for _ in 0..pieces {
        sleep(Duration::from_millis(100)).await;
        if stream.write_all(piece.as_bytes()).is_err() {
            break;
        }
    }
    let _over = stream.write_all(b"0\r\n\r\n");
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut answer = [0; 4_096];
        let came = stream.read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..came]).into_owned()
    });
    reading.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_minute_are_the_principals() {
    let world = World::start().await;
    let admin = world.admin().await;
    let (ada, other) = (of(&world, &admin, "agent.ada").await, of(&world, &admin, "agent.ada").await);
    let bob = of(&world, &admin, "agent.bob").await;
    limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 10_000 })).await;
    let post = async |client: &Client| client.send("POST", "/intents", Some(bytes(9_000))).await;
    // The first two have something left; the second one delays those after it.
    post(&ada.client).await.refused(422, "invalid_request");
    post(&other.client).await.refused(422, "invalid_request");
    for client in [&ada.client, &other.client, &ada.client.acting_as("agent.ada.7")] {
        let refused = post(client).await;
        let message = exceeded(&refused, 10_000);
        assert!(message.contains("principal:agent.ada is 10000 bytes a minute"), "{message}");
        assert!((30..=49).contains(&number(&refused, "retry-after")), "{}", refused.header("retry-after"));
    }
    let small = ada.client.once("small");
    small.post("/intents", json!({ "title": "small" })).await.refused(429, "rate_limited");
    Mcp::new(&ada.client, Era::Stateless).request("tools/list", json!({})).await.refused(429, "rate_limited");
    assert!(chunked(world.address, &ada.secret, 1, 10).await.starts_with("HTTP/1.1 429"));
    // Reading needs no bytes, and the others have their own.
    let read = ada.client.get("/intents").await.ok();
    assert_eq!(read["intents"], json!([]), "nothing was done");
    post(&bob.client).await.refused(422, "invalid_request");
    let used = quotas(&ada.client, "principals/me").await["bytes_per_minute"].clone();
    assert_eq!((&used["limit"], &used["own"]), (&json!(10_000), &json!(10_000)));
    assert!((15_000..=18_100).contains(&used["used"].as_u64().unwrap()), "{used}");
    let metrics = admin.get("//metrics").await;
    assert!(metrics.text.contains("entente_quota_refusals_total{quota=\"bytes\"}"));
    // A raised quota helps at once, whatever was too much before.
    limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 30_000 })).await;
    small.post("/intents", json!({ "title": "small" })).await.ok();
    let used = quotas(&admin, "principals/agent.ada").await["bytes_per_minute"]["used"].as_u64().unwrap();
    assert!((10_000..=18_200).contains(&used), "{used}");
    limit(&admin, "principals/agent.ada", json!({})).await;
    post(&ada.client).await.refused(422, "invalid_request");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_a_length_is_counted_as_it_comes() {
    let world = World::start().await;
    let admin = world.admin().await;
    let ada = of(&world, &admin, "agent.ada").await;
    assert!(chunked(world.address, &ada.secret, 3, 900).await.starts_with("HTTP/1.1 400"), "no quota");
    limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 1_000 })).await;
    let answer = chunked(world.address, &ada.secret, 5, 900).await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("1000 bytes a minute"), "{answer}");
    assert!(answer.contains("retry-after: "), "{answer}");
    let used = quotas(&ada.client, "principals/me").await["bytes_per_minute"]["used"].as_u64().unwrap();
    assert!((1_600..=1_800).contains(&used), "two pieces, and nothing for the third: {used}");
    // A claim of a length costs no more than the largest body.
    limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 1_000_000 })).await;
    let mut stream = TcpStream::connect(world.address).unwrap();
    let head = format!(
        "POST /api/v1/intents HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 9000000000000000000\r\n\r\n{{",
        ada.secret
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    let used = quotas(&ada.client, "principals/me").await["bytes_per_minute"]["used"].as_u64().unwrap();
    assert!(used <= 2 * 1_024 * 1_024 + 1_800_000, "{used}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_is_counted_and_never_refused() {
    let settings = vec![
        ("ENTENTE_PRINCIPAL_OPEN_REQUESTS", "1"),
        ("ENTENTE_PRINCIPAL_BYTES_PER_MINUTE", "10"),
        ("ENTENTE_TEAM_OPEN_REQUESTS", "1"),
    ];
    let world = World::with(Setup { settings, live: false }).await;
    let admin = world.admin().await;
    let me = admin.get("/principals/me").await.ok()["principal_id"].as_str().unwrap().to_owned();
    let whose = format!("principals/{me}");
    admin.put("/teams/red", json!({ "members": [me] })).await.ok();
    for _ in 0..3 {
        admin.send("POST", "/intents", Some(bytes(9_000))).await.refused(422, "invalid_request");
    }
    let shown = quotas(&admin, &whose).await;
    assert_eq!(shown["open_requests"], json!({ "limit": 1, "own": null, "used": 1 }), "this one");
    assert!(shown["bytes_per_minute"]["used"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(quotas(&admin, "teams/red").await["open_requests"]["limit"], 1);
    // Another key of the same principal, without the scope, is limited like everybody.
    let plain = admin.post(&format!("/{whose}/keys"), json!({ "rate_per_second": 0 })).await.is(201);
    let plain = world.client(plain["key"].as_str().unwrap());
    plain.send("POST", "/intents", Some(bytes(20))).await.refused(429, "rate_limited");
    // The defaults are everybody's; 0 lifts them for one.
    let ada = world.agent("agent.ada").await;
    ada.post("/intents", json!({ "title": "one" })).await.ok();
    ada.post("/intents", json!({ "title": "two" })).await.refused(429, "rate_limited");
    let shown = limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 0 })).await;
    assert_eq!(shown["bytes_per_minute"], json!({ "limit": null, "own": 0, "used": null }));
    assert_eq!(shown["open_requests"], json!({ "limit": 1, "own": null, "used": 0 }));
    assert_eq!(shown["set_by"], me);
    ada.post("/intents", json!({ "title": "two" })).await.ok();
    limit(&admin, "principals/agent.ada", json!({})).await;
    ada.post("/intents", json!({ "title": "three" })).await.refused(429, "rate_limited");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_server_counts_for_itself_and_all_have_the_same_limits() {
    let (a, b) = World::two().await;
    let admin = a.admin().await;
    let ada = of(&a, &admin, "agent.ada").await;
    let there = b.client(&ada.secret);
    there.get("/intents").await.ok();
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 1 })).await;
    let held = begun(a.address, &ada.secret);
    under_way(&admin, "principals/agent.ada", 1).await;
    exceeded(&ada.client.get("/intents").await, 1);
    there.get("/intents").await.ok();
    let beside = begun(b.address, &ada.secret);
    let mut elsewhere = admin.clone();
    elsewhere.base.clone_from(&there.base);
    // Otherwise it might come while another one is in progress, and be the one that is refused.
    under_way(&elsewhere, "principals/agent.ada", 1).await;
    until("the other server has the limit", async || there.get("/intents").await.status == 429).await;
    // Taken back there, it is no limit here either.
    limit(&elsewhere, "principals/agent.ada", json!({})).await;
    there.get("/intents").await.ok();
    until("the first server knows too", async || ada.client.get("/intents").await.status == 200).await;
    drop((held, beside));
    a.end().await;
    b.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_waits_until_there_is_room_again() {
    let world = World::start().await;
    let admin = world.admin().await;
    Hand::of(&world.any(), "echo@1.0.0").await;
    let ada = of(&world, &admin, "agent.ada").await;
    limit(&admin, "principals/agent.ada", json!({ "open_requests": 1 })).await;
    let mut socket = Socket::open_with(&world, "/arcp", hello(&ada.secret, &FEATURES)).await;
    let held = begun(world.address, &ada.secret);
    under_way(&admin, "principals/agent.ada", 1).await;
    let asked = socket.say("session.list_jobs", json!({})).await;
    sleep(Duration::from_millis(700)).await;
    drop(held);
    let told = socket.of("session.jobs").await;
    assert_eq!(told["payload"]["request_id"], asked.as_str(), "nothing is refused: {told}");
    // What a frame has too much, the next request waits for: 62 seconds' worth here.
    limit(&admin, "principals/agent.ada", json!({ "bytes_per_minute": 60_000 })).await;
    let began = Instant::now();
    socket.submit(json!({ "agent": "echo", "input": { "text": "x".repeat(62_000) } })).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // So do the other doors, which are refused.
    ada.client.post("/intents", json!({ "title": "x" })).await.refused(429, "rate_limited");
    socket.say("session.list_jobs", json!({})).await;
    socket.of("session.jobs").await;
    assert!(began.elapsed() > Duration::from_millis(1_500), "{:?}", began.elapsed());
    under_way(&admin, "principals/agent.ada", 0).await;
    drop(socket);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_sets_quotas_and_each_sees_its_own() {
    let world = World::start().await;
    let admin = world.admin().await;
    let (ada, bob) =
        (of(&world, &admin, "agent.ada").await.client, of(&world, &admin, "agent.bob").await.client);
    let mine = quotas(&ada, "principals/me").await;
    let none = json!({ "limit": null, "own": null, "used": null });
    let expected = json!({
        "scope": "principal:agent.ada", "open_requests": { "limit": null, "own": null, "used": 1 },
        "bytes_per_minute": none, "storage_bytes": none, "counted_at": null, "set_by": null, "set_at": null,
    });
    assert_eq!(mine, expected);
    let limits = json!({ "open_requests": 50, "bytes_per_minute": 1_000_000, "storage_bytes": 5_000_000 });
    let path = "/principals/agent.ada/quotas";
    ada.put(path, limits.clone()).await.refused(403, "scope_missing");
    let set = admin.once("k").put(path, limits.clone()).await.ok();
    assert_eq!(admin.once("k").put(path, limits.clone()).await.ok()["set_at"], set["set_at"], "a retry");
    admin.once("k").put(path, json!({})).await.refused(409, "idempotency_mismatch");
    let mine = quotas(&ada, "principals/agent.ada").await;
    assert_eq!(
        (&mine["open_requests"]["own"], &mine["storage_bytes"]["limit"]),
        (&json!(50), &json!(5_000_000))
    );
    // Nobody else sees them.
    bob.get(path).await.refused(404, "not_found");
    for path in ["/principals/agent.none/quotas", "/teams/red/quotas"] {
        admin.get(path).await.refused(404, "not_found");
        admin.put(path, json!({})).await.refused(404, "not_found");
    }
    admin.put("/teams/red", json!({ "members": ["agent.ada"] })).await.ok();
    limit(&admin, "teams/red", json!({ "open_requests": 70 })).await;
    assert_eq!(quotas(&ada, "teams/red").await["open_requests"]["limit"], 70);
    bob.get("/teams/red/quotas").await.refused(404, "not_found");
    for (bad, code) in [
        (json!({ "open_requests": -1 }), "invalid_request"),
        (json!({ "open_requests": 1.5 }), "invalid_request"),
        (json!({ "storage_bytes": "10G" }), "invalid_request"),
        (json!({ "bytes_per_minute": 9_007_199_254_740_992_u64 }), "invalid_request"),
    ] {
        admin.put(path, bad).await.refused(422, code);
    }
    assert_eq!(quotas(&admin, "principals/agent.ada").await["open_requests"]["limit"], 50, "as it was");
    let log = admin.get("/audit?limit=1000").await;
    let changes = log.text.matches("\"quotas.set\"").count();
    assert_eq!(changes, 2, "each change is on the record once");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_shows_and_sets_quotas() {
    let world = World::start().await;
    let admin = world.admin().await;
    let secret = admin.headers().iter().find(|header| header.0 == "x-api-key").unwrap().1.clone();
    let ada = of(&world, &admin, "agent.ada").await;
    admin.put("/teams/red", json!({ "members": ["agent.ada"] })).await.ok();
    let desk = Desk::of(&world);
    let run = async |key: &str, line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = desk.command(key, &arguments);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (good, text) = run(&secret, "principal quota agent.ada --open-requests 7 --storage 2G").await;
    assert!(good && text.contains("2000000000"), "{text}");
    // What is not named stays.
    let (good, _) = run(&secret, "principal quota agent.ada --open-requests none").await;
    let shown = quotas(&admin, "principals/agent.ada").await;
    assert!(
        good && shown["storage_bytes"]["own"] == 2_000_000_000 && shown["open_requests"]["own"] == 0,
        "{shown}"
    );
    let (good, _) = run(&secret, "principal quota agent.ada --storage default --open-requests default").await;
    assert!(good && quotas(&admin, "principals/agent.ada").await["set_by"] == Value::Null);
    let (good, _) = run(&secret, "team quota red --bytes-per-minute 500k").await;
    assert!(good && quotas(&admin, "teams/red").await["bytes_per_minute"]["limit"] == 500_000);
    // One's own, without naming oneself; setting them is for admins.
    let (good, text) = run(&ada.secret, "principal quota").await;
    assert!(good && text.contains("principal:agent.ada") && text.contains("open_requests"), "{text}");
    let (good, text) = run(&ada.secret, "principal quota --open-requests 5").await;
    assert!(!good && text.contains("admin"), "{text}");
    let (good, text) = run(&secret, "principal quota agent.ada --storage much").await;
    assert!(!good && text.contains("`none`"), "{text}");
    world.end().await;
}
