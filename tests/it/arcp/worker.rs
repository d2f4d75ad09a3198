//! Jobs from the terminal: `entente worker`, which runs a command for each job, and `entente job`. All run as
//! processes against a server on the system clock. The agents are shell scripts (`harness/desk.rs`), because any
//! program that reads and writes lines can be an agent.

mod cancelled;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::sleep;

use entente_harness::desk::{AGENTS, Desk, Hand, PATIENCE};
use entente_harness::jobs::id;
use entente_harness::process::{KEY, Launch, Place};
use entente_harness::{ANY, Setup, Value, World, json};

async fn live() -> World {
    World::with(Setup::live()).await
}

/// Whether a process exists.
fn runs(pid: &str) -> bool {
    test_kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap()).is_ok()
}

/// Whether a process still does something: one that has ended, and that nobody has waited for, does not.
fn lives(pid: &str) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']),
        Err(_gone) => !Path::new("/proc/self").exists() && runs(pid),
    }
}

/// Returns whether a process handles SIGTERM itself: bit 14 of its caught signals.
fn hears_stops(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << 14) != 0)
}

/// Waits until a process has ended.
async fn over(pid: &str, limit: Duration) {
    let began = Instant::now();
    while lives(pid) {
        assert!(began.elapsed() < limit, "{pid} goes on");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the watchdog of a worker; `None` where processes cannot be listed.
fn watchdog(hand: &Hand) -> Option<String> {
    let parent = format!("PPid:\t{}\n", hand.child.id());
    let of_worker = |pid: &String| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("status").contains(&parent) && read("cmdline").contains("watchdog")
    };
    let all =
        fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).find(of_worker)
}

fn kinds(envelopes: &[Value]) -> Vec<&str> {
    let kind = |envelope: &'_ Value| envelope["type"] == "job.event";
    envelopes.iter().filter(|e| kind(e)).map(|e| e["payload"]["kind"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_an_agent() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["echo", "filter", "chatty"], &["--slots", "2"]).await;
    let (envelopes, status) = desk.follow("echo", &["--input", r#"{"n":12345678901234567.25}"#]).await;
    assert_eq!(status, 0);
    assert_eq!(envelopes[0]["type"], "job.accepted");
    assert!(envelopes[0]["session_id"].as_str().unwrap().starts_with("sess_"));
    assert_eq!(envelopes[1]["payload"]["result"], json!({ "n": 12_345_678_901_234_567.25 }));
    let id = envelopes[0]["job_id"].as_str().unwrap();
    let bytes = desk.run(&["job", "result", id]).await.stdout;
    assert_eq!(String::from_utf8(bytes).unwrap(), r#"{"n":12345678901234567.25}"#, "not as it was written");
    let shown = String::from_utf8(desk.run(&["job", "show", id]).await.stdout).unwrap();
    assert!(shown.lines().any(|line| line.starts_with("created_at") && line.ends_with(" ago)")), "{shown}");

    let ask = ["--lease", r#"{"tool.call":["search.*"]}"#, "--budget", "USD:1.50", "--budget", "credits:3"];
    let (envelopes, status) = desk.follow("chatty", &ask).await;
    assert_eq!(status, 0);
    assert_eq!(kinds(&envelopes).len(), 5);
    let logged = |level: &str| {
        let all = envelopes.iter().filter(|e| e["payload"]["body"]["level"] == level);
        all.map(|e| e["payload"]["body"]["message"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(logged("info"), ["a line of the log", r#"{"first":1}"#]);
    let errors = logged("error");
    assert!(errors.contains(&"a complaint") && errors.iter().any(|e| e.contains("`nonsense`")), "{errors:?}");
    let result = &envelopes.last().unwrap()["payload"]["result"];
    assert_eq!(result["job"], envelopes[0]["job_id"]);
    assert_eq!((&result["attempt"], &result["key"]), (&json!(1), &json!("none")));
    assert_eq!(result["lease"]["cost.budget"], json!(["USD:1.50", "credits:3"]));
    assert_eq!(result["budget"], json!({ "USD": 1.5, "credits": 3 }));
    let trace = envelopes[0]["payload"]["trace_id"].as_str().unwrap();
    assert!(result["trace"].as_str().unwrap().starts_with(&format!("00-{trace}-")));
    assert!(hand.stop().await.contains("is done"));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_reads_its_input_to_the_end() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["filter"], &["--filter"]).await;
    fs::write(desk.place.0.join("input.json"), "[1, 2]").unwrap();
    let (envelopes, status) = desk.follow("filter", &["--input", "@input.json"]).await;
    assert_eq!((status, &envelopes[1]["payload"]["result"]), (0, &json!([1, 2])));
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_the_end_of_its_input_is_named_once() {
    let world = live().await;
    let desk = Desk::of(&world);
    // A busy command and a quick one give no reason for a hint, and neither does a filter.
    let other = desk.worker(&["counter", "echo"], &["--slots", "2"]).await;
    let filter = desk.worker(&["filter"], &["--filter"]).await;
    let hand = desk.worker(&["reader"], &["--slots", "2", "--drain-seconds", "0"]).await;
    let mut jobs = Vec::new();
    for agent in ["counter", "echo", "filter", "reader", "reader"] {
        jobs.push(desk.submit(agent, &[]).await);
    }
    let began = Instant::now();
    while !hand.log().contains("--filter") {
        assert!(began.elapsed() < PATIENCE, "no hint: {}", hand.log());
        sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(3), "a command has some time");
    sleep(Duration::from_secs(1)).await;
    let log = hand.log();
    let hint = log.lines().find(|line| line.contains("--filter")).unwrap();
    assert!(jobs[3..].iter().any(|job| hint.starts_with(id(job))), "{hint}");
    assert_eq!(log.matches("has written nothing").count(), 1, "for both commands once: {log}");
    for calm in [&other, &filter] {
        assert!(!calm.log().contains("has written nothing"), "{}", calm.log());
    }
    hand.stop().await;
    other.stop().await;
    filter.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authority_is_asked_for_and_answered() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["asker"], &[]).await;
    let ask = ["--lease", r#"{"tool.call":["search.*"]}"#, "--budget", "USD:1.00"];
    let (envelopes, status) = desk.follow("asker", &ask).await;
    assert_eq!(status, 0);
    let answers = &envelopes.last().unwrap()["payload"]["result"];
    assert_eq!((&answers[0]["decision"], &answers[0]["call_id"]), (&json!("allow"), &json!("c1")));
    assert_eq!((&answers[1]["decision"], &answers[1]["code"]), (&json!("deny"), &json!("PERMISSION_DENIED")));
    assert_eq!((&answers[2]["decision"], &answers[2]["code"]), (&json!("deny"), &json!("BUDGET_EXHAUSTED")));
    assert_eq!(kinds(&envelopes).iter().filter(|kind| **kind == "tool_result").count(), 2);
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_streamed_and_written_byte_for_byte() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["large"], &[]).await;
    let (envelopes, status) = desk.follow("large", &[]).await;
    assert_eq!(status, 0);
    let end = &envelopes.last().unwrap()["payload"];
    assert_eq!((&end["result_size"], end.get("result")), (&json!(900_000), None));
    assert!(kinds(&envelopes).iter().all(|kind| *kind == "result_chunk"));
    let id = envelopes[0]["job_id"].as_str().unwrap();
    assert!(desk.run(&["job", "result", id, "--output", "out"]).await.status.success());
    assert_eq!(fs::read_to_string(desk.place.0.join("out")).unwrap(), "x".repeat(900_000));
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_says_why_and_so_does_the_exit_status() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["failing", "crashing"], &[]).await;
    let (envelopes, status) = desk.follow("failing", &[]).await;
    let end = &envelopes.last().unwrap()["payload"];
    assert_eq!((status, &end["code"]), (3, &json!("PERMISSION_DENIED")));
    assert_eq!(end["message"], "the door is locked");
    let (envelopes, status) = desk.follow("crashing", &[]).await;
    let end = &envelopes.last().unwrap()["payload"];
    assert_eq!((status, &end["code"], &end["retryable"]), (3, &json!("INTERNAL_ERROR"), &json!(true)));
    assert!(end["message"].as_str().unwrap().ends_with(": it broke"), "{end}");
    assert_eq!(end["details"], json!({ "exit_code": 7 }));
    let unknown = desk.run(&["job", "submit", "--agent", "nobody"]).await;
    assert_eq!(unknown.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("AGENT_NOT_AVAILABLE"));
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_told_that_its_job_was_called_off() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["polite", "stubborn"], &["--slots", "2"]).await;
    for (agent, told) in [("polite", true), ("stubborn", false)] {
        let job = desk.submit(agent, &[]).await;
        let id = job["job_id"].as_str().unwrap();
        let pid = desk.file("pid").await;
        let refused = desk.run(&["job", "cancel", id, "--session", "sess_01J9ZK4T6Q8R2V5X7Y9B1C3D5F"]).await;
        assert!(String::from_utf8_lossy(&refused.stderr).contains("PERMISSION_DENIED"));
        let session = job["session_id"].as_str().unwrap();
        desk.told(&["job", "cancel", id, "--session", session, "--reason", "enough"]).await;
        let end = desk.run(&["job", "events", id, "--follow"]).await;
        assert_eq!(end.status.code(), Some(4), "{}", String::from_utf8_lossy(&end.stdout));
        assert_eq!(desk.place.0.join("told").exists(), told);
        assert!(!runs(&pid), "{agent} goes on");
        let _none = fs::remove_file(desk.place.0.join("told"));
        fs::remove_file(desk.place.0.join("pid")).unwrap();
    }
    hand.stop().await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_of_a_job_that_is_over_is_ended() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["stubborn"], &[]).await;
    let (_, status) = desk.follow("stubborn", &["--max-runtime", "1"]).await;
    assert_eq!(status, 5);
    let pid = desk.file("pid").await;
    let began = Instant::now();
    while runs(&pid) {
        assert!(began.elapsed() < PATIENCE, "it goes on: {}", hand.log());
        sleep(Duration::from_millis(50)).await;
    }
    assert!(hand.stop().await.contains("is no longer ours"));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_say_which_worker_runs_which_job() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["polite"], &["--name", "the-one", "--drain-seconds", "0"]).await;
    let job = desk.submit("polite", &[]).await;
    let job = job["job_id"].as_str().unwrap();
    desk.file("pid").await;
    let workers = desk.told(&["worker", "list"]).await;
    let worker = workers.as_array().unwrap().iter().find(|worker| worker["name"] == "the-one").unwrap();
    assert_eq!(worker["jobs"][0]["job_id"], job);
    let record = desk.told(&["job", "get", job]).await;
    assert_eq!(
        (&record["claim"]["worker_id"], &record["claim"]["worker"]),
        (&worker["worker_id"], &json!("the-one"))
    );
    for (arguments, words) in [
        (["worker", "list"], ["since", job]),
        (["job", "list"], ["the-one", record["claim"]["since"].as_str().unwrap()]),
    ] {
        let text = String::from_utf8(desk.run(&arguments).await.stdout).unwrap();
        assert!(words.iter().all(|word| text.contains(*word)), "{text}");
    }
    hand.stop().await;
    let listed = desk.told(&["job", "list"]).await;
    assert_eq!((&listed["jobs"][0]["status"], listed["jobs"][0].get("claim")), (&json!("pending"), None));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_leaves_no_command_behind() {
    let world = live().await;
    let desk = Desk::of(&world);
    let mut hand = desk.worker(&["polite", "stubborn", "family"], &["--slots", "3"]).await;
    let mut pids = Vec::new();
    for (agent, files) in
        [("polite", &["pid"][..]), ("stubborn", &["pid"][..]), ("family", &["child", "parent"][..])]
    {
        desk.submit(agent, &[]).await;
        for file in files {
            pids.push(desk.file(file).await);
            fs::remove_file(desk.place.0.join(file)).unwrap();
        }
    }
    assert!(pids.len() == 4 && pids.iter().all(|pid| lives(pid)), "{pids:?}");
    let guard = watchdog(&hand);
    hand.signal(Signal::KILL);
    assert_eq!(hand.ended().await.code(), None);
    for pid in pids.iter().chain(&guard) {
        over(pid, Duration::from_secs(10)).await;
    }
    assert!(desk.place.0.join("told").exists(), "a command is told before it is killed");
    assert!(hand.log().contains("ending its 3 running"), "{}", hand.log());
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_survives_the_kill_of_its_worker_and_goes_on_where_it_was() {
    let world = World::with(Setup { settings: vec![("ENTENTE_CLAIM_SECONDS", "2")], live: true }).await;
    let desk = Desk::of(&world);
    let mut hand = desk.worker(&["walker"], &[]).await;
    let job = desk.submit("walker", &[]).await;
    let pid = desk.file("pid").await;
    let path = format!("/jobs/{}/attempts", id(&job));
    let began = Instant::now();
    while desk.client.get(&path).await.ok()["checkpoint"]["bytes"] != 1
        || !progress(&desk, id(&job)).await.contains(&5)
    {
        assert!(began.elapsed() < PATIENCE, "no progress");
        sleep(Duration::from_millis(20)).await;
    }
    hand.signal(Signal::KILL);
    hand.ended().await;
    over(&pid, Duration::from_secs(10)).await;
    let _second = desk.worker(&["walker"], &[]).await;
    let job = desk.until(id(&job), "success").await;
    assert_eq!(job["terminal"]["result"], json!({ "from": 5, "to": 10 }));
    assert_eq!(progress(&desk, id(&job)).await, (1..=10).collect::<Vec<_>>(), "no step is done twice");
    let shown = desk.told(&["job", "attempts", id(&job)]).await;
    let outcomes: Vec<&str> =
        shown["attempts"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["lost", "success"]);
    world.server.stop().await;
}

/// Returns the progress that a job has reported.
async fn progress(desk: &Desk, id: &str) -> Vec<u64> {
    let events = desk.events(id).await;
    events.iter().filter_map(|event| event["payload"]["body"]["current"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_is_run_again() {
    let world = live().await;
    let desk = Desk::of(&world);
    let _hand = desk.worker(&["flaky"], &["--retry", r#"{"initial_delay_ms":500}"#]).await;
    let (envelopes, status) = desk.follow("flaky", &[]).await;
    assert_eq!((status, kinds(&envelopes)), (0, vec!["status"]));
    assert_eq!(envelopes.last().unwrap()["payload"]["result"], json!({ "n": 1 }));
    let (envelopes, status) = desk.follow("flaky", &["--retry", r#"{"max_attempts":1}"#]).await;
    assert_eq!((status, kinds(&envelopes).len()), (3, 0));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watchdog_does_its_work_also_if_nobody_reads_the_messages() {
    let world = live().await;
    let desk = Desk::of(&world);
    let run = ["worker", "--exec", AGENTS, "--kill-seconds", "1", "--agent=polite@1.0.0"];
    let mut worker = desk.command(ANY, &run).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    drop(worker.stderr.take());
    let began = Instant::now();
    while desk.told(&["worker", "list"]).await.as_array().is_none_or(Vec::is_empty) {
        assert!(began.elapsed() < PATIENCE, "no worker");
        sleep(Duration::from_millis(50)).await;
    }
    desk.submit("polite", &[]).await;
    let pid = desk.file("pid").await;
    worker.kill().unwrap();
    worker.wait().unwrap();
    over(&pid, Duration::from_secs(10)).await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watchdog_lives_as_long_as_its_worker() {
    let world = live().await;
    let desk = Desk::of(&world);
    let hand = desk.worker(&["polite", "echo"], &["--slots", "2"]).await;
    let Some(first) = watchdog(&hand) else { return };
    let pid = |text: &str| Pid::from_raw(text.parse().unwrap()).unwrap();
    // A stop signal for all processes of a service does not end it before the worker, once it listens for signals.
    let began = Instant::now();
    while !hears_stops(&first) {
        assert!(began.elapsed() < PATIENCE, "{first} listens for no signals");
        sleep(Duration::from_millis(5)).await;
    }
    kill_process(pid(&first), Signal::TERM).unwrap();
    desk.follow("echo", &[]).await;
    assert!(lives(&first));
    // One that is killed is replaced with the next command, and knows the commands before.
    let before = desk.submit("polite", &[]).await;
    let command = desk.file("pid").await;
    kill_process(pid(&first), Signal::KILL).unwrap();
    over(&first, PATIENCE).await;
    desk.follow("echo", &[]).await;
    let second = watchdog(&hand).unwrap();
    assert_ne!(second, first);
    hand.signal(Signal::KILL);
    over(&command, Duration::from_secs(10)).await;
    over(&second, PATIENCE).await;
    desk.told(&["job", "cancel", id(&before), "--session", before["session_id"].as_str().unwrap()]).await;
    // After a stop in order nothing is left either.
    let hand = desk.worker(&["echo"], &[]).await;
    let last = watchdog(&hand).unwrap();
    let log = hand.stop().await;
    over(&last, PATIENCE).await;
    assert!(!log.contains("ending its"), "{log}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_finishes_what_it_can_and_gives_back_the_rest() {
    let world = live().await;
    let desk = Desk::of(&world);
    let mut hand = desk.worker(&["brief", "polite"], &["--slots", "2", "--drain-seconds", "3"]).await;
    let brief = desk.submit("brief", &[]).await;
    let long = desk.submit("polite", &[]).await;
    let pid = desk.file("pid").await;
    hand.signal(Signal::INT);
    assert!(hand.ended().await.success(), "{}", hand.log());
    assert!(!runs(&pid), "it goes on");
    assert_eq!(
        desk.told(&["job", "get", brief["job_id"].as_str().unwrap()]).await["current_status"],
        "success"
    );
    let id = long["job_id"].as_str().unwrap();
    let back = desk.told(&["job", "get", id]).await;
    assert_eq!((&back["current_status"], &back["attempt"]), (&json!("pending"), &json!(0)), "{}", hand.log());
    fs::remove_file(desk.place.0.join("pid")).unwrap();
    let second = desk.worker(&["polite"], &["--drain-seconds", "0"]).await;
    desk.until(id, "running").await;
    desk.file("pid").await;
    second.stop().await;
    desk.until(id, "pending").await;
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_does_what_the_server_says() {
    let world = live().await;
    let desk = Desk::of(&world);
    let mut hand = desk.worker(&["echo"], &["--name", "obedient"]).await;
    let listed = desk.told(&["worker", "list"]).await;
    let worker =
        listed.as_array().unwrap().iter().find(|worker| worker["name"] == "obedient").unwrap().clone();
    let id = worker["worker_id"].as_str().unwrap();
    desk.told(&["worker", "direct", id, "quiet"]).await;
    let began = Instant::now();
    while !hand.log().contains("claim nothing more") {
        assert!(began.elapsed() < PATIENCE, "{}", hand.log());
        sleep(Duration::from_millis(50)).await;
    }
    let job = desk.submit("echo", &[]).await;
    let job = job["job_id"].as_str().unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(desk.told(&["job", "get", job]).await["current_status"], "pending");
    desk.told(&["worker", "direct", id, "run"]).await;
    desk.until(job, "success").await;
    desk.told(&["worker", "direct", id, "terminate"]).await;
    assert!(hand.ended().await.success());
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_the_server_is_away() {
    let place = Place::new("worker-away");
    let launch = Launch::private(&place);
    let (mut server, _) = launch.start().await;
    let url = format!("http://{}", server.address);
    let desk = Desk { url, place: Place::new("worker"), client: server.client(KEY) };
    let mut worker = desk.command(KEY, &["worker", "--agent=counter@1.0.0", "--exec", AGENTS]);
    let log = desk.place.0.join("worker.log");
    let child = worker.stderr(fs::File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap();
    let hand = Hand { child, log };
    desk.client.put("/arcp/agents/counter/versions/1.0.0", json!({})).await.ok();
    let job = desk.client.post("/jobs", json!({ "agent": "counter" })).await.is(201);
    let id = job["job_id"].as_str().unwrap();
    let mut follows = desk.command(KEY, &["job", "events", id, "--follow", "--json"]);
    let follows = tokio::task::spawn_blocking(move || follows.output().unwrap());
    sleep(Duration::from_secs(2)).await;
    server.kill();
    sleep(Duration::from_secs(1)).await;
    let (server, _) = launch.start().await;
    let output = follows.await.unwrap();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), hand.log());
    let lines = String::from_utf8(output.stdout).unwrap();
    let envelopes: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = envelopes.iter().map(|e| e["event_seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=41).collect::<Vec<u64>>());
    let said = envelopes.iter().filter_map(|e| e["payload"]["body"]["message"].as_str());
    assert_eq!(said.collect::<Vec<_>>(), (0..40).map(|i| format!("{i} of many")).collect::<Vec<_>>());
    assert_eq!(envelopes[40]["payload"]["result"], "counted");
    hand.stop().await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_looked_after_from_the_terminal() {
    let world = live().await;
    let desk = Desk::of(&world);
    world.any().put("/arcp/agents/idle/versions/1.0.0", json!({})).await.ok();
    let first = desk.submit("idle", &["--key", "k", "--expires-at", "2036-05-13T23:42:00Z"]).await;
    let again = desk.submit("idle", &["--key", "k", "--expires-at", "2036-05-13T23:42:00Z"]).await;
    assert_eq!(first, again);
    let second = desk.submit("idle", &[]).await;
    let listed = desk.told(&["job", "list", "--agent", "idle", "--status", "pending", "--limit", "1"]).await;
    assert_eq!(listed["jobs"][0]["job_id"], second["job_id"]);
    let cursor = listed["next_cursor"].as_str().unwrap();
    let rest =
        desk.told(&["job", "list", "--agent", "idle", "--status", "pending", "--cursor", cursor]).await;
    assert_eq!(rest["jobs"][0]["job_id"], first["job_id"]);
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 1);
    let id = first["job_id"].as_str().unwrap();
    assert_eq!(desk.events(id).await, Vec::<Value>::new());
    // An operator needs no session id.
    let admin = world.admin().await;
    let mut cancel = desk.command(&admin.headers()[0].1, &["job", "cancel", id]);
    let output = tokio::task::spawn_blocking(move || cancel.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let job = desk.until(id, "cancelled").await;
    assert_eq!(job["lease_constraints"]["expires_at"], "2036-05-13T23:42:00.000000Z");
    assert_eq!(desk.events(id).await.last().unwrap()["payload"]["code"], "CANCELLED");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_takes_signals_and_the_next_attempt_those_that_it_did_not_acknowledge() {
    let settings = vec![("ENTENTE_CLAIM_SECONDS", "3")];
    let world = World::with(Setup { settings, ..Setup::live() }).await;
    let desk = Desk::of(&world);
    let mut first = desk.worker(&["listener"], &["--signals"]).await;
    let job = desk.submit("listener", &[]).await;
    for _ in 0..2 {
        desk.told(&["job", "signal", id(&job), "input", "--payload", r#"{"n":[1]}"#]).await;
    }
    desk.file("second").await;
    let acknowledged = async |count: usize| {
        let began = Instant::now();
        loop {
            let listed = desk.told(&["job", "signals", id(&job)]).await;
            let all = listed["signals"].as_array().unwrap().clone();
            if all.iter().filter(|signal| signal["acknowledged_at"].is_string()).count() == count {
                return all;
            }
            assert!(began.elapsed() < PATIENCE, "not {count} acknowledged: {all:?}");
            sleep(Duration::from_millis(50)).await;
        }
    };
    acknowledged(1).await;
    first.child.kill().unwrap();
    first.ended().await;
    let second = desk.worker(&["listener"], &["--signals"]).await;
    assert_eq!(desk.until(id(&job), "success").await["attempt"], 2);
    assert_eq!(acknowledged(2).await[1]["attempt"], 2);
    let phases: Vec<String> = desk
        .events(id(&job))
        .await
        .iter()
        .filter_map(|event| event["payload"]["body"]["phase"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(phases, ["signal 1", "signal 2", "signal 2"], "the first is not given out again");
    second.stop().await;
    world.end().await;
}
