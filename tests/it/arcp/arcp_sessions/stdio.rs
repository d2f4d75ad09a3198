//! A session over stdin and stdout (ARCP-W-2.5): short lines with one envelope each, until the input ends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use entente_harness::jobs::Hand;
use entente_harness::process::Place;
use entente_harness::socket::{FEATURES, hello, seqs};
use entente_harness::{Client, Cluster, Value, json};

struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    count: u32,
}

impl Pipe {
    fn start(place: &Place, url: &str, bind: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.args(arguments).args(["--bind", bind, "--seed=agent:agent.client=key-of-client"]);
        command.arg("--seed=service:service.any=key-of-any");
        command.env("DATABASE_URL", url).env("ENTENTE_LOG", "warn").current_dir(&place.0);
        let log = std::fs::File::create(place.0.join("server.log")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { input: child.stdin.take(), child, lines, count: 0 }
    }

    fn say(&mut self, word: &str, payload: &Value) {
        self.count += 1;
        let frame =
            json!({ "arcp": "1.1", "id": format!("r{}", self.count), "type": word, "payload": payload });
        writeln!(self.input.as_mut().unwrap(), "{frame}").unwrap();
    }

    /// Returns the next frame of these types; asserts that each line before it is a short envelope.
    fn of(&self, words: &[&str]) -> Value {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(30)).expect("nothing came");
            assert!(line.len() < 60_000, "a line of {} bytes", line.len());
            let frame: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(frame["arcp"], "1.1");
            if words.contains(&frame["type"].as_str().unwrap()) {
                return frame;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_runs_over_lines_and_ends_with_its_input() {
    let place = Place::new("stdio");
    let database = Cluster::get().fresh_database().await;
    let url = Cluster::get().url(&database);
    let port = 30_000 + std::process::id() % 2_000;
    let bind = format!("127.0.0.1:{port}");
    let mut pipe = Pipe::start(&place, &url, &bind, &["--stdio"]);
    pipe.say("session.hello", &hello("key-of-client", &FEATURES));
    let welcome = pipe.of(&["session.welcome"]);
    assert_eq!(welcome["payload"]["capabilities"]["agents"], json!([]));
    let hand = Hand::of(&Client::new(bind.parse().unwrap(), Some("key-of-any")), "echo@1.0.0").await;
    writeln!(pipe.input.as_mut().unwrap(), "\nnonsense").unwrap();
    assert_eq!(pipe.of(&["session.error"])["payload"]["code"], "INVALID_REQUEST");
    pipe.say("job.submit", &json!({ "agent": "echo" }));
    let job = pipe.of(&["job.accepted"]);
    let claimed = hand.one().await;
    // Two chunks that are too long for a line, and a frame after them.
    for (seq, letter) in [(0, "a"), (1, "ö")] {
        let body = json!({ "result_id": claimed["result_id"], "chunk_seq": seq, "data": letter.repeat(100_000),
            "encoding": "utf8", "more": seq < 1 });
        hand.events(&claimed, json!([{ "kind": "result_chunk", "body": body }])).await.ok();
    }
    hand.events(
        &claimed,
        json!([{ "kind": "log", "body": { "level": "info", "message": "x".repeat(100_000) } }]),
    )
    .await
    .ok();
    hand.tell(&claimed, "result", json!({ "result_id": claimed["result_id"] })).await.ok();
    let mut got = Vec::new();
    while got.last().is_none_or(|frame: &Value| frame["type"] != "job.result") {
        got.push(pipe.of(&["job.event", "job.result"]));
    }
    let count = i64::try_from(got.len()).unwrap();
    assert_eq!(seqs(&got), (1..=count).collect::<Vec<i64>>());
    let chunks: Vec<&Value> = got
        .iter()
        .filter(|frame| frame["payload"]["kind"] == "result_chunk")
        .map(|frame| &frame["payload"]["body"])
        .collect();
    let whole: String = chunks.iter().map(|chunk| chunk["data"].as_str().unwrap()).collect();
    assert_eq!(whole, "a".repeat(100_000) + &"ö".repeat(100_000));
    for (index, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk["chunk_seq"], index);
        assert_eq!(chunk["more"], index + 1 < chunks.len());
    }
    assert!(got.iter().any(|frame| frame["payload"]["body"]["phase"] == "event_too_large"));
    assert_eq!(got.last().unwrap()["job_id"], job["job_id"]);
    drop(pipe.input.take());
    let began = std::time::Instant::now();
    while pipe.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "it goes on without input");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Another process resumes the session: the same numbers.
    let mut pipe = Pipe::start(&place, &url, "127.0.0.1:0", &["arcp-stdio", "--dialect", "strict"]);
    let mut said = hello("key-of-client", &FEATURES);
    said["resume"] = json!({ "session_id": welcome["session_id"], "resume_token": welcome["payload"]["resume_token"], "last_event_seq": 3 });
    pipe.say("session.hello", &said);
    pipe.of(&["session.welcome"]);
    for before in &got[3..] {
        let again = pipe.of(&["job.event", "job.result"]);
        assert_eq!((&again["event_seq"], &again["payload"]), (&before["event_seq"], &before["payload"]));
    }
    drop(pipe.input.take());
    pipe.child.wait().unwrap();
}
