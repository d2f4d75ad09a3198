//! `entente conform`: this server passes every check; a wrong one fails exactly those that it is wrong in; one that
//! hangs, that talks nonsense or that is not there ends the command soon, with a clear error.

mod altering;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Output;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{complaint, text};
use altering::{Altering, Wrong};
use entente_harness::{Client, Setup, Value, World, json};

/// Upper bound for the end of a command whose server does not answer.
const SOON: Duration = Duration::from_secs(15);

/// Runs the kit on a server as two agents.
async fn conform(address: SocketAddr, path: &str, protocol: &str, more: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("conform").arg(format!("http://{address}{path}")).arg(format!("--protocol={protocol}"));
    command.args(["--agent=agent.a", "--second-agent=agent.b", "--json"]).args(more);
    // Other tests run beside this one.
    if !more.iter().any(|word| word.starts_with("--timeout")) {
        command.arg("--timeout=20");
    }
    command.env_clear().env("ENTENTE_API_KEY", "key-of-agent.a").env("ENTENTE_SECOND_KEY", "key-of-agent.b");
    command.kill_on_drop(true).output().await.unwrap()
}

/// Returns the checks with this result.
fn with<'a>(found: &'a Value, result: &str) -> BTreeSet<&'a str> {
    let checks = found["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["result"] == result).map(|check| check["name"].as_str().unwrap()).collect()
}

/// Works as `echo`, which ends its jobs at once, and as `slow`, which ends them when they are cancelled.
struct Worker(tokio::task::JoinHandle<()>);

impl Worker {
    async fn start(client: Client) -> Self {
        for agent in ["echo", "slow"] {
            client
                .put(&format!("/arcp/agents/{agent}/versions/1.0.0"), json!({ "default": true }))
                .await
                .ok();
        }
        let worker = json!({ "name": "hand", "agents": ["echo@1.0.0", "slow@1.0.0"], "slots": 16 });
        let id = client.post("/workers", worker).await.is(201)["worker_id"].clone();
        Self(tokio::spawn(async move {
            loop {
                let claim = json!({ "worker_id": id, "max": 8, "wait_sec": 1 });
                let claimed = client.post("/jobs/claim", claim).await.ok();
                for job in claimed["jobs"].as_array().unwrap() {
                    tokio::spawn(work(client.clone(), job.clone()));
                }
            }
        }))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a job.
async fn work(client: Client, job: Value) {
    let (id, token) = (job["job_id"].as_str().unwrap(), &job["claim_token"]);
    if job["agent"].as_str().unwrap().starts_with("echo@") {
        let log = json!({ "kind": "log", "body": { "level": "info", "message": "echo started" } });
        let events = json!({ "claim_token": token, "events": [log] });
        client.post(&format!("/jobs/{id}/events"), events).await.ok();
        let result = json!({ "claim_token": token, "result": { "echoed": job["input"] } });
        client.post(&format!("/jobs/{id}/result"), result).await;
        return;
    }
    loop {
        let wait = json!({ "claim_token": token, "wait_sec": 5 });
        let waited = client.post(&format!("/jobs/{id}/signals/wait"), wait).await;
        // It is refused once the job is over.
        if waited.status != 200 {
            return;
        }
        if waited.json()["cancel_requested"] == true {
            let end = json!({ "claim_token": token, "code": "CANCELLED", "message": "stopped" });
            client.post(&format!("/jobs/{id}/error"), end).await;
            return;
        }
    }
}

/// A protocol, the path of this server's endpoint, and how many checks there are at least.
const PROTOCOLS: [(&str, &str, usize); 6] = [
    ("openintent", "", 60),
    ("arcp", "", 45),
    ("a2a", "/a2a/echo", 30),
    ("mcp", "", 20),
    ("moments", "", 18),
    ("aee", "", 25),
];

/// What the kit is told besides.
fn more(protocol: &str) -> &'static [&'static str] {
    if protocol == "moments" { &["--arguments={\"principal\":\"human.ada\"}"] } else { &[] }
}

/// Starts a server with the agents and the worker that the kit asks for. RFC-0021's text holds in strict mode, as the
/// deployed clients expect otherwise (OI-2).
async fn ready(is_strict: bool) -> (World, Worker) {
    let settings = if is_strict { vec![("ENTENTE_STRICT_RFC0021", "true")] } else { Vec::new() };
    let world = World::with(Setup { settings, ..Setup::live() }).await;
    world.agent("agent.a").await;
    world.agent("agent.b").await;
    world.human("human.ada").await;
    let worker = Worker::start(world.any()).await;
    (world, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn this_server_passes_every_check() {
    let ((strict, _one), (world, _other)) = tokio::join!(ready(true), ready(false));
    let runs = PROTOCOLS.map(|(protocol, path, least)| {
        let address = if protocol == "openintent" { strict.address } else { world.address };
        async move { (protocol, least, conform(address, path, protocol, more(protocol)).await) }
    });
    for (protocol, least, output) in futures_util::future::join_all(runs).await {
        assert!(!text(&output).is_empty(), "{protocol}: {}", complaint(&output));
        let found: Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!(with(&found, "failed"), BTreeSet::new(), "{protocol}: {}", text(&output));
        assert_eq!(output.status.code(), Some(0), "{protocol}: {}", complaint(&output));
        let passed = with(&found, "passed").len();
        assert!(passed >= least, "{protocol}: only {passed} checks pass");
        assert!(!text(&output).contains("key-of-agent.a"), "a key is printed");
    }
}

/// A server with faults: each protocol with the answers that are altered, and the checks that see it.
fn faults() -> Vec<(&'static str, Wrong, Vec<&'static str>)> {
    vec![
        (
            "openintent",
            altering::openintent(),
            vec![
                "broadcast_is_for_all",
                "channel_counts_messages",
                "channel_name_is_unique",
                "key_is_needed",
                "metadata_comes_back",
                "reply_is_a_response",
                "since_a_message",
                "since_a_time",
            ],
        ),
        ("arcp", altering::arcp(), vec!["errors_say_retryable", "numbers_have_no_gap", "ping_is_answered"]),
        (
            "a2a",
            altering::a2a(),
            vec!["history_has_a_length", "skills_have_their_members", "unknown_method_fails"],
        ),
        (
            "mcp",
            altering::mcp(),
            vec!["notification_is_202", "tool_names_are_unique", "unknown_method_fails"],
        ),
        (
            "moments",
            altering::moments(),
            vec!["moment_has_its_members", "offer_is_a_text", "one_option_is_recommended"],
        ),
        (
            "aee",
            altering::aee(),
            vec![
                "each_member_is_needed",
                "log_line_is_no_envelope",
                "ping_is_answered",
                "priority_is_an_enum",
            ],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_server_fails_where_it_is_wrong_and_nowhere_else() {
    let ((strict, _one), (world, _other)) = tokio::join!(ready(true), ready(false));
    let runs = faults().into_iter().map(|(protocol, wrong, expected)| {
        let target = if protocol == "openintent" { strict.address } else { world.address };
        async move {
            let proxy = Altering::start(target, wrong).await;
            let path = PROTOCOLS.iter().find(|(name, ..)| *name == protocol).unwrap().1;
            // The card has the URL of the server behind the proxy.
            let rebase = if protocol == "a2a" { &["--rebase"][..] } else { &[] };
            let more = [more(protocol), rebase].concat();
            (protocol, expected, conform(proxy.address, path, protocol, &more).await)
        }
    });
    let mut wrong = Vec::new();
    for (protocol, expected, output) in futures_util::future::join_all(runs).await {
        let found: Value = serde_json::from_str(&text(&output)).unwrap();
        let expected: BTreeSet<&str> = expected.into_iter().collect();
        let told = format!("the server fails {} of ", expected.len());
        let is_told = complaint(&output).contains(&told) && output.status.code() == Some(1);
        if with(&found, "failed") != expected || !is_told {
            wrong.push(format!("{protocol}: {:?}: {}", with(&found, "failed"), complaint(&output)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Starts a server that does this with each connection, given its number.
async fn listening<F, Done>(act: F) -> SocketAddr
where
    F: Fn(u32, tokio::net::TcpStream) -> Done + Send + 'static,
    Done: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 1.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(act(number, stream));
        }
    });
    address
}

/// Reads a request, and keeps the connection open.
async fn hang(mut stream: tokio::net::TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Asserts that the command ends soon, with a message that there is no server to check.
async fn unreachable(address: SocketAddr, why: &str) {
    for (protocol, path, _) in PROTOCOLS {
        let begun = Instant::now();
        let output = conform(address, path, protocol, &["--timeout=1"]).await;
        assert!(begun.elapsed() < SOON, "{protocol}: {:?}", begun.elapsed());
        assert_eq!(output.status.code(), Some(8), "{protocol}: {}", complaint(&output));
        let told = complaint(&output);
        assert!(told.contains("no server to check at") && told.contains(why), "{protocol}: {told}");
        assert_eq!(text(&output), "", "{protocol}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    unreachable(free, "refused").await;
}

#[tokio::test]
async fn a_server_that_hangs_is_told() {
    let address = listening(|_, stream| hang(stream)).await;
    unreachable(address, "nothing within 1 s").await;
}

#[tokio::test]
async fn a_server_that_speaks_no_http_is_told() {
    let address = listening(async |_, mut stream: tokio::net::TcpStream| {
        let mut buffer = [0; 4096];
        let _read = stream.read(&mut buffer).await;
        let _sent = stream.write_all(b"\x00\xff what is this?\r\n\r\n").await;
    });
    unreachable(address.await, "").await;
}

#[tokio::test]
async fn a_server_that_falls_silent_ends_the_run() {
    let address = listening(|number, mut stream: tokio::net::TcpStream| async move {
        if number > 1 {
            return hang(stream).await;
        }
        let mut buffer = [0; 4096];
        let _read = stream.read(&mut buffer).await;
        let _sent = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
    });
    let begun = Instant::now();
    let output = conform(address.await, "", "openintent", &["--timeout=1"]).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let found: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((output.status.code(), with(&found, "failed").len()), (Some(1), 3), "{}", text(&output));
    let skipped = found["checks"].as_array().unwrap().iter().filter(|check| check["result"] == "skipped");
    for check in skipped {
        assert_eq!(check["reason"], "the server gave no answer to 3 checks in a row");
    }
}

#[tokio::test]
async fn checks_are_selected_and_listed() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let listed = |more: &'static [&'static str]| async move {
        let more: Vec<&str> = more.iter().copied().chain(["--list"]).collect();
        let output = conform(nowhere, "", "openintent", &more).await;
        assert!(output.status.success(), "{}", complaint(&output));
        text(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = listed(&[]).await;
    let must = listed(&["--tier=must"]).await;
    assert!(must.iter().all(|line| line.starts_with("MUST")) && must.len() < all.len(), "{must:?}");
    let one = listed(&["--only=since_a_time"]).await;
    assert!(one.len() == 1 && one[0].contains("RFC-0021 §2.4.1"), "{one:?}");
    let clause = listed(&["--only=§2.4", "--only=RFC-0021 §5.4"]).await;
    assert!(
        clause.len() > 4 && clause.iter().all(|line| line.contains("§2.4.") || line.contains("§5.4")),
        "{clause:?}"
    );
    let none = conform(nowhere, "", "openintent", &["--only=§99"]).await;
    assert_eq!(none.status.code(), Some(2), "{}", complaint(&none));
    let no_url = conform(nowhere, "", "arcp", &["--only=§4", "--tier=may"]).await;
    assert_eq!(no_url.status.code(), Some(2), "{}", complaint(&no_url));
}
