//! Hooks in the background: they wait until something wakes, and end when another waits or the turn goes on.

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Host, Scene, numbers, shown};
use crate::cli::PATIENCE;
use entente_harness::cli::{complaint, text};
use entente_harness::{Setup, World, json};

const STOP: &str = r#"{"session_id":"s","hook_event_name":"Stop","stop_hook_active":false}"#;

fn start(host: &Host) -> Child {
    use std::io::Write as _;
    let mut child = host.command(&["hook", "claude", "--wait", "600"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(STOP.as_bytes()).unwrap();
    child
}

async fn ended(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it still waits");
        sleep(Duration::from_millis(50)).await;
    }
    child.wait_with_output().unwrap()
}

/// Returns whether a hook of the session waits.
fn waits(host: &Host) -> bool {
    let files = std::fs::read_dir(host.home.join(".local/state/entente/attach")).unwrap();
    let mut texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    texts.any(|text| !text.contains("\"waiter\":null"))
}

async fn until_waiting(host: &Host) {
    let began = Instant::now();
    while !waits(host) {
        assert!(began.elapsed() < PATIENCE, "nobody waits");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_wakes_and_brings_along_what_waited() {
    let scene = Scene::on(World::with(Setup::live()).await, "claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    let child = start(host);
    until_waiting(host).await;
    scene.say("notify", 1).await;
    scene.say("broadcast", 2).await;
    sleep(Duration::from_secs(2)).await;
    assert!(waits(host), "what waits for the next step wakes");
    scene.say("request", 3).await;
    let output = ended(child).await;
    assert_eq!((output.status.code(), text(&output)), (Some(2), String::new()));
    assert_eq!(numbers(&complaint(&output)), [1, 3, 2]);
    // The end of the turn that this woke marks it.
    assert_eq!(scene.places().await, [("claude:s".to_owned(), 0)]);
    assert!(host.hook("s", "Stop", json!({ "stop_hook_active": true })).await.is_null());
    assert_eq!(scene.places().await, [("claude:s".to_owned(), 3)]);
    scene.world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_last_of_an_idle_session_waits() {
    let scene = Scene::on(World::with(Setup::live()).await, "claude").await;
    let host = &scene.host;
    host.hook("s", "SessionStart", json!({ "source": "startup" })).await;
    let first = start(host);
    until_waiting(host).await;
    // A turn begins: its steps and its end show what comes.
    host.hook("s", "UserPromptSubmit", json!({})).await;
    assert!(!waits(host));
    scene.say("request", 1).await;
    let output = ended(first).await;
    assert_eq!((output.status.code(), complaint(&output)), (Some(0), String::new()));
    let answer = host.hook("s", "Stop", json!({ "stop_hook_active": false })).await;
    assert_eq!(numbers(shown(&answer)), [1]);
    // The turn goes on, so nobody waits.
    assert_eq!(ended(start(host)).await.status.code(), Some(0));
    // Nor where the host ends with its turn.
    host.hook("s", "Stop", json!({ "stop_hook_active": true })).await;
    let headless = Host { variables: vec![("CLAUDE_CODE_ENTRYPOINT", "sdk-cli".to_owned())], ..host.clone() };
    assert_eq!(ended(start(&headless)).await.status.code(), Some(0));
    assert!(!waits(host));
    scene.world.end().await;
}
