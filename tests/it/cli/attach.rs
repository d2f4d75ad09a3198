//! `entente attach`: hooks of LLM hosts, MCP over stdio, and the hosts' settings. The hosts themselves run in
//! `tests/clients/test_attach.py`.

mod hooks;
mod install;
mod relay;
mod setup;
mod waiting;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{complaint, text};
use entente_harness::process::Place;
use entente_harness::{Client, Value, World, json, send, talk};

/// Time within which a hook ends, whatever happens: its own limit and the start of the program.
const LIMIT: Duration = Duration::from_secs(9);

/// A host with a home, in which its hooks keep their state.
#[derive(Clone)]
pub struct Host {
    name: &'static str,
    home: PathBuf,
    /// The server's URL.
    url: String,
    key: String,
    /// More variables of the environment.
    pub variables: Vec<(&'static str, String)>,
    /// More arguments of the hook.
    pub arguments: Vec<&'static str>,
}

impl Host {
    /// A host whose agent is bob.
    pub fn new(name: &'static str, place: &Place, world: &World) -> Self {
        let (home, url) = (place.0.clone(), format!("http://{}", world.address));
        let key = "key-of-agent.bob".to_owned();
        Self { name, home, url, key, variables: Vec::new(), arguments: Vec::new() }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entente"));
        command.arg("attach").args(arguments).env_clear().env("HOME", &self.home);
        command.env("ENTENTE_URL", &self.url).env("ENTENTE_API_KEY", &self.key);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a hook with this text on stdin.
    pub async fn raw(&self, input: &str) -> Output {
        let mut command = self.command(&["hook", self.name]);
        command.args(&self.arguments);
        let input = input.to_owned();
        let run = move || {
            let mut child = command.spawn().unwrap();
            // A hook that fails early does not read all.
            let _written = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// Runs a hook for an event of a session, asserts that the host goes on, and returns its answer.
    pub async fn hook(&self, session: &str, event: &str, more: Value) -> Value {
        let mut input = json!({ "session_id": session, "hook_event_name": event, "cwd": "/", "permission_mode": "default" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let output = self.raw(&input.to_string()).await;
        assert!(output.status.success() && complaint(&output).is_empty(), "{}", complaint(&output));
        let answer = text(&output);
        if answer.is_empty() { Value::Null } else { serde_json::from_str(&answer).unwrap() }
    }
}

/// A server with a channel of ada's, and bob's host.
pub struct Scene {
    pub world: World,
    pub ada: Client,
    pub bob: Client,
    pub channel: String,
    pub host: Host,
    _place: Place,
}

impl Scene {
    pub async fn start(name: &'static str) -> Self {
        Self::on(World::start().await, name).await
    }

    pub async fn on(world: World, name: &'static str) -> Self {
        let (ada, bob) = (world.agent("agent.ada").await, world.agent("agent.bob").await);
        let (_intent, channel) = talk(&ada, json!({ "members": ["agent.bob"] })).await;
        let place = Place::new("attach");
        let host = Host::new(name, &place, &world);
        Self { world, ada, bob, channel, host, _place: place }
    }

    /// Sends a numbered message to bob.
    pub async fn say(&self, kind: &str, n: u64) {
        let to = if kind == "broadcast" { "*" } else { "agent.bob" };
        let body = json!({ "sender": "agent.ada", "to": to, "message_type": kind, "payload": { "n": n } });
        send(&self.ada, &self.channel, body).await;
    }

    /// Sends numbered requests to bob, and waits for their entries.
    pub async fn say_all(&self, numbers: impl Iterator<Item = u64>) {
        let message = |n| json!({ "sender": "agent.ada", "to": "agent.bob", "message_type": "request", "payload": { "n": n } });
        let messages: Vec<Value> = numbers.map(message).collect();
        let path = format!("/channels/{}/messages/batch", self.channel);
        self.ada.post(&path, json!({ "messages": messages })).await.ok();
        self.follow().await;
    }

    /// Writes the entries that are due.
    pub async fn follow(&self) {
        entente::background::inboxes::catch_up(self.world.ctx()).await.unwrap();
    }

    /// The places of the readers of bob's inbox.
    pub async fn places(&self) -> Vec<(String, i64)> {
        let inbox = self.bob.get("/agents/agent.bob/inbox/settings").await.ok();
        let readers = inbox["readers"].as_array().unwrap().iter();
        readers
            .map(|one| (one["reader"].as_str().unwrap().to_owned(), one["place"].as_i64().unwrap()))
            .collect()
    }
}

/// Returns the text that an answer shows to the model.
pub fn shown(answer: &Value) -> &str {
    let context = &answer["hookSpecificOutput"]["additionalContext"];
    context.as_str().or(answer["reason"].as_str()).unwrap_or_default()
}

/// Returns the numbers of the messages in a text.
pub fn numbers(text: &str) -> Vec<u64> {
    let parts = text.split("{\"n\":").skip(1);
    parts.map(|part| part.split('}').next().unwrap().parse().unwrap()).collect()
}

/// Asserts that a host goes on after this output, which says in one line why nothing is shown.
pub fn goes_on(output: &Output, reason: &str) {
    let said = complaint(output);
    assert!(output.status.success() && text(output).is_empty(), "{}{said}", text(output));
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains(reason), "{reason:?} is not in {said:?}");
}

pub fn exists(home: &Path, name: &str) -> bool {
    home.join(name).exists()
}

/// Asserts that something takes no longer than a hook may.
pub fn in_time(began: Instant) {
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}
