//! `entente arcp-stdio --url`: a session of a running server over stdin and stdout (ARCP-W-2.5), relayed by a process that is
//! no server.

use std::net::{SocketAddr, TcpListener};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::world;
use entente_harness::jobs::{Hand, id};
use entente_harness::socket::{FEATURES, Socket, hello, seqs};
use entente_harness::{Value, World, json};

/// Upper bound for anything that must arrive.
const PATIENCE: Duration = Duration::from_secs(20);

struct Relay {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    count: u32,
}

impl Relay {
    fn start(address: SocketAddr, key: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.args(["arcp-stdio", "--url", &format!("ws://{address}/arcp")]).args(arguments).env_clear();
        if !key.is_empty() {
            command.env("ENTENTE_API_KEY", key);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), child, lines, count: 0 }
    }

    /// Starts a relay and opens a session.
    async fn open(world: &World, key: &str) -> (Self, Value) {
        let mut relay = Self::start(world.address, "", &[]);
        relay.say("session.hello", hello(key, &FEATURES)).await;
        let welcome = relay.of("session.welcome").await;
        (relay, welcome)
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    async fn say(&mut self, word: &str, payload: Value) {
        self.count += 1;
        let frame =
            json!({ "arcp": "1.1", "id": format!("r{}", self.count), "type": word, "payload": payload });
        self.raw(format!("{frame}\n").as_bytes()).await;
    }

    /// Returns the next frame; asserts that it is a short line.
    async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("nothing came").unwrap()?;
        assert!(line.len() < 60_000, "a line of {} bytes", line.len());
        let frame: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(frame["arcp"], "1.1");
        Some(frame)
    }

    async fn of(&mut self, word: &str) -> Value {
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("the relay ended before a {word}"));
            if frame["type"] == word {
                return frame;
            }
        }
    }

    async fn numbered(&mut self, count: usize) -> Vec<Value> {
        let mut got = Vec::new();
        while got.len() < count {
            let frame = self.next().await.expect("the relay ended");
            if frame.get("event_seq").is_some() {
                got.push(frame);
            }
        }
        got
    }

    /// Waits for the end; returns the exit status and what the process wrote to stderr.
    async fn ended(mut self) -> (ExitStatus, String) {
        while self.next().await.is_some() {}
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it goes on").unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        (status, said)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_running_server_runs_over_lines() {
    let (world, hand, key) = world().await;
    let began = Instant::now();
    let (mut relay, welcome) = Relay::open(&world, key).await;
    // Clients wait five seconds; alone on its machine it takes some milliseconds.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(welcome["payload"]["capabilities"]["agents"][0]["name"], "echo");
    relay.raw(b"\nnonsense\n").await;
    assert_eq!(relay.of("session.error").await["payload"]["code"], "INVALID_REQUEST");
    // The relay itself refuses lines that the server would close the connection for; the session goes on.
    relay.raw("x".repeat(1_200_000).as_bytes()).await;
    relay.raw(b"\n\xff\xfe\n").await;
    for reason in ["too long", "UTF-8"] {
        let told = relay.of("session.error").await;
        assert_eq!(told["payload"]["code"], "INVALID_REQUEST");
        assert!(told["payload"]["message"].as_str().unwrap().contains(reason), "{told}");
    }
    relay.say("job.submit", json!({ "agent": "echo" })).await;
    let job = relay.of("job.accepted").await;
    let claimed = hand.one().await;
    // A stream that is too long for lines, and closed by an empty chunk in another encoding.
    let parts = ["QUJD".repeat(30_000), "QUJD".to_owned(), String::new()];
    for (seq, data) in parts.iter().enumerate() {
        let last = seq + 1 == parts.len();
        let body = json!({ "result_id": claimed["result_id"], "chunk_seq": seq, "data": data,
            "encoding": if last { "utf8" } else { "base64" }, "more": !last });
        hand.events(&claimed, json!([{ "kind": "result_chunk", "body": body }])).await.ok();
    }
    hand.tell(&claimed, "result", json!({ "result_id": claimed["result_id"] })).await.ok();
    let mut got = Vec::new();
    while got.last().is_none_or(|frame: &Value| frame["type"] != "job.result") {
        got.extend(relay.numbered(1).await);
    }
    let count = i64::try_from(got.len()).unwrap();
    assert_eq!(seqs(&got), (1..=count).collect::<Vec<i64>>());
    assert!(count > 4, "the first chunk is cut");
    let bodies: Vec<&Value> = got[..got.len() - 1].iter().map(|frame| &frame["payload"]["body"]).collect();
    assert!(bodies.iter().all(|body| body["encoding"] == "base64"));
    let whole: String = bodies.iter().map(|body| body["data"].as_str().unwrap()).collect();
    assert_eq!(whole, parts.concat());
    assert_eq!(got.last().unwrap()["job_id"], job["job_id"]);
    relay.say("session.close", json!({})).await;
    relay.of("session.closed").await;
    let (status, said) = relay.ended().await;
    assert!(status.success() && said.is_empty(), "{status} {said}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_the_clients_or_the_environments() {
    let (world, _hand, key) = world().await;
    let mut relay = Relay::start(world.address, key, &["--dialect", "python"]);
    let mut said = hello("", &FEATURES);
    said.as_object_mut().unwrap().remove("auth");
    relay.say("session.hello", said.clone()).await;
    relay.of("session.welcome").await;
    // The dialect was passed on: Python gets its budget as text.
    relay
        .say("job.submit", json!({ "agent": "echo", "lease_request": { "cost.budget": ["USD:5.00"] } }))
        .await;
    assert!(relay.of("job.accepted").await["payload"]["budget"]["USD"].is_string());
    drop(relay.input.take());
    assert!(relay.ended().await.0.success());
    // The client's own key wins over the environment's, also a wrong one.
    for (own, environment) in [("bad", key), ("", "bad"), ("", "")] {
        let mut relay = Relay::start(world.address, environment, &[]);
        relay.say("session.hello", hello(own, &FEATURES)).await;
        let told = relay.of("session.error").await;
        assert_eq!(told["payload"]["code"], "UNAUTHENTICATED", "{told}");
        let (status, said) = relay.ended().await;
        assert_eq!(status.code(), Some(7));
        assert!(said.contains("ENTENTE_API_KEY") && !said.contains(key), "{said}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap()
    };
    // One address refuses connections; the other one accepts them and stays silent.
    for address in [closed, silent] {
        let mut relay = Relay::start(address, "k", &[]);
        relay.say("session.hello", hello("k", &FEATURES)).await;
        let began = Instant::now();
        let told = relay.of("session.error").await;
        assert!(began.elapsed() < Duration::from_secs(5), "clients give up by then");
        assert_eq!(
            (&told["payload"]["code"], &told["payload"]["request_id"]),
            (&json!("INTERNAL_ERROR"), &json!("r1"))
        );
        assert_eq!(told["payload"]["retryable"], true);
        let (status, said) = relay.ended().await;
        assert_eq!(status.code(), Some(8), "unreachable");
        assert!(said.contains(&address.to_string()) && said.contains("--url"), "{said}");
    }
    let world = World::start().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command
        .args(["arcp-stdio", "--bind", "127.0.0.1:0", "--url", &format!("http://{}", world.address)])
        .env_clear();
    let output = command.output().await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"), "a relay binds nothing");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let (world, hand, key) = world().await;
    let (mut relay, welcome) = Relay::open(&world, key).await;
    for n in 0..20 {
        relay.say("job.submit", json!({ "agent": "echo", "input": n })).await;
    }
    drop(relay.input.take());
    for _ in 0..20 {
        relay.of("job.accepted").await;
    }
    assert!(relay.ended().await.0.success());
    let claimed = hand.claim(1).await.remove(0);
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    // Another relay resumes the session.
    let mut again = Relay::start(world.address, "", &[]);
    let mut said = hello(key, &FEATURES);
    said["resume"] = json!({ "session_id": welcome["session_id"], "resume_token": welcome["payload"]["resume_token"],
        "last_event_seq": 0 });
    again.say("session.hello", said).await;
    assert_eq!(again.of("session.welcome").await["session_id"], welcome["session_id"]);
    assert_eq!(id(&again.of("job.result").await), id(&claimed));
    // A signal ends it in order.
    let pid = Pid::from_raw(i32::try_from(again.child.id().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(again.ended().await.0.success());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_late_misses_nothing() {
    let (world, hand, key) = world().await;
    // Without `ack` there are no events about the lag.
    let mut relay = Relay::start(world.address, "", &[]);
    relay.say("session.hello", hello(key, &["heartbeat"])).await;
    relay.of("session.welcome").await;
    relay.say("job.submit", json!({ "agent": "echo" })).await;
    relay.of("job.accepted").await;
    let claimed = hand.one().await;
    // More than the pipe and the sockets hold: the server waits for the relay, and the relay for the client.
    let text = "x".repeat(20_000);
    for n in 0..40 {
        let log = |k: u32| json!({ "kind": "log", "body": { "level": "info", "message": format!("{} {text}", n * 20 + k) } });
        let events: Value = (0..20).map(log).collect();
        hand.events(&claimed, events).await.ok();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Meanwhile another client of the same server is served at once.
    let other = Socket::open(&world, key).await;
    let got = relay.numbered(800).await;
    assert_eq!(seqs(&got), (1..=800).collect::<Vec<i64>>());
    for (n, frame) in got.iter().enumerate() {
        assert!(
            frame["payload"]["body"]["message"].as_str().unwrap().starts_with(&format!("{n} ")),
            "at {n}"
        );
    }
    drop((relay, other));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_ends_the_relay_with_a_status() {
    let (a, b) = World::two().await;
    a.agent("agent.client").await;
    let key = "key-of-agent.client";
    let hand = Hand::of(&b.any(), "echo@1.0.0").await;
    let (mut relay, welcome) = Relay::open(&a, key).await;
    relay.say("job.submit", json!({ "agent": "echo" })).await;
    let job = relay.of("job.accepted").await;
    a.server.stop().await;
    let (status, said) = relay.ended().await;
    assert_eq!(status.code(), Some(8));
    assert!(said.contains("restarts") && said.contains("resume"), "{said}");
    let mut again = Relay::start(b.address, "", &[]);
    let mut resume = hello(key, &FEATURES);
    resume["resume"] = json!({ "session_id": welcome["session_id"], "resume_token": welcome["payload"]["resume_token"],
        "last_event_seq": 0 });
    again.say("session.hello", resume).await;
    again.of("session.welcome").await;
    let claimed = hand.one().await;
    hand.tell(&claimed, "result", json!({ "result": 1 })).await.ok();
    assert_eq!(again.of("job.result").await["job_id"], job["job_id"]);
    drop(again);
    b.server.stop().await;
}
