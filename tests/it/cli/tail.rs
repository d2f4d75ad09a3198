//! `entente tail` as people and as programs read it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use chrono::{DateTime, FixedOffset};
use entente_domain::clock::Timestamp;
use tokio::time::sleep;

use super::{Duration, PATIENCE};
use entente_harness::terminal::Terminal;
use entente_harness::{ANY, Client, Setup, Value, World, json, send, talk};

/// Pause between two messages while a follower is not there yet.
const PAUSE: Duration = Duration::from_millis(50);

fn tail(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
    command.arg("tail").args(arguments).env_clear().env("ENTENTE_API_KEY", ANY);
    // A zone nine hours ahead, in the form that needs no files.
    command.env("ENTENTE_URL", format!("http://{}", world.address)).env("TZ", "XST-9");
    command
}

/// Starts a follower whose lines arrive on a channel. The output stays open as long as the receiver.
fn follow(mut command: Command) -> (Child, Receiver<String>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// Sends numbered messages until the follower shows one; returns its line and that message.
async fn first(ada: &Client, channel: &str, lines: &Receiver<String>) -> (String, Value) {
    let (began, mut sent) = (Instant::now(), Vec::new());
    loop {
        let body = json!({ "sender": "agent.ada", "payload": { "n": format!("m{}e", sent.len()) } });
        sent.push(send(ada, channel, body).await);
        sleep(PAUSE).await;
        if let Ok(line) = lines.try_recv() {
            let shown = |message: &&Value| line.contains(message["payload"]["n"].as_str().unwrap());
            let message = sent.iter().find(shown).unwrap_or_else(|| panic!("not a message: {line}")).clone();
            return (line, message);
        }
        assert!(began.elapsed() < PATIENCE, "nothing is shown");
    }
}

async fn ended(child: &mut Child, ada: &Client, channel: &str) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        send(ada, channel, json!({ "sender": "agent.ada", "payload": {} })).await;
        sleep(PAUSE).await;
        assert!(began.elapsed() < PATIENCE, "it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn people_read_a_line_and_programs_an_object() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (mut child, lines) = follow(tail(&world, &[&intent]));
    let (line, message) = first(&ada, &channel, &lines).await;
    let at: Timestamp = message["created_at"].as_str().unwrap().parse().unwrap();
    let at: DateTime<FixedOffset> = at.with_timezone(&FixedOffset::east_opt(9 * 3_600).unwrap());
    assert!(line.starts_with(&at.format("%Y-%m-%d %H:%M:%S  agent.ada → *").to_string()), "{line}");
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let (kind, number) = (word(&message["message_type"]), word(&message["payload"]["n"]));
    let end = format!("{kind}  n={number}  #talk on intent_…{}", &intent[intent.len() - 5..]);
    assert!(line.ends_with(&end), "{line}");
    assert!(!line.contains('\x1b') && !line.contains(&intent), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();

    let (mut child, lines) = follow(tail(&world, &[&intent, "--json"]));
    let (line, message) = first(&ada, &channel, &lines).await;
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&object["event"], &object["data"]["id"]), (&json!("channel_message"), &message["id"]));
    assert_eq!(object["data"]["intent_id"], json!(intent));
    child.kill().unwrap();
    child.wait().unwrap();
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_output_ends_it_silently() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    let (mut child, lines) = follow(tail(&world, &[&intent]));
    first(&ada, &channel, &lines).await;
    // As `head -1`: the reader ends after a line.
    drop(lines);
    let status = ended(&mut child, &ada, &channel).await;
    let output = child.wait_with_output().unwrap();
    assert_eq!((status.code(), super::complaint(&output)), (Some(141), String::new()));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn colours_are_for_terminals_whose_user_wants_them() {
    let world = World::with(Setup::live()).await;
    let ada = world.agent("agent.ada").await;
    let (intent, channel) = talk(&ada, json!({})).await;
    for (no_color, coloured) in [(None, true), (Some(""), true), (Some("1"), false)] {
        let mut command = tail(&world, &[&intent]);
        command.envs(no_color.map(|value| ("NO_COLOR", value)));
        let mut terminal = Terminal::run(&mut command);
        let shown = tokio::task::spawn_blocking(move || terminal.until("#talk on"));
        while !shown.is_finished() {
            send(&ada, &channel, json!({ "sender": "agent.ada", "payload": {} })).await;
            sleep(PAUSE).await;
        }
        let shown = shown.await.unwrap();
        assert_eq!(shown.contains("\x1b[36magent.ada"), coloured, "{no_color:?}: {shown:?}");
        assert_eq!(shown.contains('\x1b'), coloured, "{no_color:?}: {shown:?}");
    }
    world.server.stop().await;
}
