//! `entente demo`: a complete scenario on a temporary server over real HTTP, with a transcript and an exit
//! status that tells success. It uses only the public API. `demo/work.rs` covers leases, tasks and webhooks,
//! `demo/jobs.rs` jobs and their streams, `demo/post.rs` envelopes, `demo/decision.rs` a person's
//! decision, `demo/spending.rs` budgets and stops, `demo/waking.rs` an agent that sleeps until something wakes it,
//! `demo/loops.rs` a loop of three agents, and `demo/staying.rs` the server that goes on afterwards.

mod decision;
mod jobs;
mod loops;
mod post;
mod spending;
mod staying;
mod waking;
mod work;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use entente_client::remote::{Api, Failure as Refusal};
use entente_client::tail::Frames;
use entente_domain::bundles::{self, Line, Section};
use entente_domain::egress::Allowed;
use entente_domain::identity::keys::Presented;
use entente_domain::log::kinds::MESSAGE_EVENTS;
use entente_kernel::identity::seeds;
use entente_runtime::signals::Signals;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Done, Failure, run};
use crate::config::Config;
use crate::startup::Server;
use crate::telemetry;

/// Time limit of each step.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks at something that the server does by itself.
const PAUSE: Duration = Duration::from_millis(50);

/// Run a complete scenario on a server of its own
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// The data directory of its PostgreSQL; kept afterwards [default: a temporary directory, removed
    /// afterwards]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Let the server go on afterwards, with its dashboard and a question that waits, until Ctrl-C
    #[arg(long)]
    stay: bool,
}

impl Demo {
    pub(super) async fn run(self) -> Done {
        let mut config = Config::from_environment()?;
        config.bind = ([127, 0, 0, 1], 0).into();
        // The demo never touches a database in use.
        config.database_url = None;
        config.webhooks.allow = config.webhooks.allow.and(Allowed::loopback());
        // Slow statements and late connections only tell that the machine is busy, and refused keys are part
        // of the scenario: neither belongs in the transcript.
        "warn,sqlx=error,entente_runtime::refused=off".clone_into(&mut config.log);
        telemetry::init(&config);
        let temporary = self.data_dir.is_none();
        let dir = self
            .data_dir
            .unwrap_or_else(|| std::env::temp_dir().join(format!("entente-demo-{}", std::process::id())));
        config.data_dir = Some(dir.clone());
        // The story is told on this machine; a certificate would be for another name.
        config.tls.certificate = None;

        let begun = Instant::now();
        say("entente demo: two agents talk, on a server of their own")?;
        let mut signals = Signals::listen()?;
        let (server, private) = run::start(config, Vec::new(), &mut signals).await?;
        let told = tell(&server, begun, self.stay, &mut signals).await;
        server.stop().await;
        if let Some(private) = private {
            private.stop().await?;
        }
        if temporary {
            std::fs::remove_dir_all(&dir)?;
        }
        told?;
        say(&format!("\nEverything went as it should, in {:.1} s.", begun.elapsed().as_secs_f64()))
    }
}

/// Tells the story, and goes on afterwards if it shall.
async fn tell(server: &Server, begun: Instant, stay: bool, signals: &mut Signals) -> Done {
    let presented = Presented::mint(&*server.ctx.chance);
    let root = seeds::development(&server.ctx, &presented).await?.and_then(|new| new.secret);
    let root = root.ok_or("the server made no key")?;
    let url = format!("http://{}", server.address);
    say(&format!("  PostgreSQL and the server were ready after {} ms: {url}", begun.elapsed().as_millis()))?;
    let root = Api::new(&url, Some(root.0))?;
    let stage = tokio::select! {
        told = story(&root) => told?,
        () = signals.told() => return Err("told to stop in the middle of the story".into()),
    };
    if !stay {
        return Ok(());
    }
    tokio::select! {
        ended = stage.stay(&url) => ended,
        () = signals.told() => Ok(()),
    }
}

fn say(line: &str) -> Done {
    writeln!(io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Fails the demo unless `holds`.
fn hold(holds: bool, what: &str) -> Done {
    if holds { Ok(()) } else { Err(format!("the story went wrong: {what}").into()) }
}

/// Returns a member that must be a string.
fn text<'a>(answer: &'a Value, member: &str) -> Result<&'a str, Failure> {
    answer[member].as_str().ok_or_else(|| format!("no `{member}` in {answer}").into())
}

/// Requires a refusal with this code, and prints it.
fn refused(answer: Result<Value, Refusal>, code: &str) -> Done {
    match answer {
        Ok(answer) => Err(format!("this should have been refused with {code}: {answer}").into()),
        Err(refusal) if refusal.code() == Some(code) => say(&format!("  refused: {refusal}")),
        Err(other) => Err(other.into()),
    }
}

/// Waits until `look` finds something.
async fn until(
    fault: &str,
    look: impl AsyncFn() -> Result<Option<Value>, Failure>,
) -> Result<Value, Failure> {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        hold(began.elapsed() < PATIENCE, fault)?;
        sleep(PAUSE).await;
    }
}

/// Clients and ids of the scenario.
struct Stage {
    root: Api,
    researcher: Api,
    data: Api,
    impostor: Api,
    intent: String,
    channel: String,
    stream: Frames,
    /// Id of the worker that runs the jobs.
    worker: String,
}

async fn story(root: &Api) -> Result<Stage, Failure> {
    let mut stage = Stage::set(root).await?;
    stage.question().await?;
    stage.retry().await?;
    stage.impostor().await?;
    stage.expiry().await?;
    stage.lease().await?;
    stage.tasks().await?;
    stage.webhook().await?;
    stage.proof().await?;
    stage.budget().await?;
    stage.streamed().await?;
    stage.post().await?;
    let person = stage.decision().await?;
    stage.spending(&person).await?;
    stage.waking().await?;
    stage.thanks().await?;
    Ok(stage)
}

impl Stage {
    /// Creates three agents with keys, an intent that two of them may work on, a channel, and a stream of the
    /// intent.
    async fn set(root: &Api) -> Result<Self, Failure> {
        say("\n1. Three agents get keys of their own; two of them will work together")?;
        let mut clients = Vec::new();
        for (agent, role) in
            [("agent.researcher", "researcher"), ("agent.data", "data"), ("agent.impostor", "unknown")]
        {
            root.post("/principals", &json!({ "id": agent, "kind": "agent" })).await?;
            let made = root.post(&format!("/principals/{agent}/keys"), &json!({ "label": "demo" })).await?;
            let client = root.with_key(text(&made, "key")?);
            client.post("/agents/register", &json!({ "agent_id": agent, "role_id": role })).await?;
            say(&format!("  {agent} has key {}… and the role {role}", text(&made["record"], "prefix")?))?;
            clients.push(client);
        }
        let [researcher, data, impostor] =
            <[Api; 3]>::try_from(clients).map_err(|_other_number| "there are three agents")?;

        say(
            "\n2. agent.researcher creates an intent, closed to all but agent.data, and opens an audited channel",
        )?;
        let intent = researcher.post("/intents", &json!({ "title": "Summarise the Q1 dataset" })).await?;
        let id = text(&intent, "id")?.to_owned();
        let acl = json!({
            "default_policy": "closed",
            "entries": [{ "principal_id": "agent.data", "principal_type": "agent", "permission": "write" }],
        });
        researcher.act(reqwest::Method::PUT, &format!("/intents/{id}/acl"), &acl).await?;
        let channel = json!({
            "name": "data-clarification", "members": ["agent.researcher", "agent.data"],
            "member_policy": "explicit", "options": { "audit": true },
        });
        let channel = researcher.post(&format!("/intents/{id}/channels"), &channel).await?;
        let channel = text(&channel, "id")?.to_owned();
        say(&format!("  intent  {id}\n  channel {channel}"))?;
        let stream = Frames::open(&researcher, &format!("/subscribe/intents/{id}"), None).await?;
        say("  a stream of server-sent events watches the intent")?;
        Ok(Self {
            root: root.clone(),
            researcher,
            data,
            impostor,
            intent: id,
            channel,
            stream,
            worker: String::new(),
        })
    }

    fn path(&self, rest: &str) -> String {
        format!("/channels/{}{rest}", self.channel)
    }

    /// Reads the stream up to the frame about this id, and prints it.
    async fn watch(&mut self, name: &str, about: &str) -> Done {
        let found = async {
            while let Some(frame) = self.stream.next().await {
                if frame.name == name
                    && [&frame.data["id"], &frame.data["message_id"]].contains(&&json!(about))
                {
                    return Some(frame);
                }
            }
            None
        };
        let frame = timeout(PATIENCE, found).await.ok().flatten();
        let frame = frame.ok_or_else(|| format!("the stream did not show {name} of {about}"))?;
        say(&format!("  stream: id {} event {name} {about}", frame.id))
    }

    /// One agent asks and waits; the other polls and answers.
    async fn question(&mut self) -> Done {
        say("\n3. agent.researcher asks, and waits in one call; agent.data polls, and answers")?;
        let question = json!({
            "to": "agent.data", "timeout": 10,
            "payload": { "question": "Which schema version does the Q1 dataset use?" },
        });
        let asked = Instant::now();
        let (ask_path, poll_path) = (self.path("/ask"), self.path("/messages"));
        let asks = self.researcher.post(&ask_path, &question);
        let answers = async {
            let unread = self.data.get(&poll_path, &[("wait", "10".to_owned())]).await?;
            let request = unread[0].clone();
            let id = text(&request, "id")?;
            say(&format!("  agent.data reads    {}", request["payload"]))?;
            let reply = json!({ "sender": "agent.data", "payload": { "answer": "v2.3" } });
            let reply = self.data.post(&format!("{poll_path}/{id}/reply"), &reply).await?;
            Ok::<_, Failure>((request, reply))
        };
        let (answer, answered) = tokio::join!(asks, answers);
        let (answer, (request, reply)) = (answer?, answered?);
        hold(answer["outcome"] == "complete", "the question was not answered")?;
        hold(answer["response"]["id"] == reply["id"], "another answer came back")?;
        say(&format!(
            "  agent.researcher has {} after {:.1} ms",
            answer["response"]["payload"],
            asked.elapsed().as_secs_f64() * 1_000.0
        ))?;
        self.watch("channel_message", text(&request, "id")?).await?;
        self.watch("channel_message", text(&reply, "id")?).await
    }

    /// A request sent twice with one idempotency key has one effect.
    async fn retry(&mut self) -> Done {
        say("\n4. A reply got lost, so agent.data sends the same again: it is done once")?;
        let note = json!({ "sender": "agent.data", "message_type": "notify", "payload": { "rows": 48_211 } });
        let path = self.path("/messages");
        let first = self.data.post_once(&path, &note, "demo-retry").await?;
        let again = self.data.post_once(&path, &note, "demo-retry").await?;
        hold(first["id"] == again["id"], "the message was doubled")?;
        say(&format!("  both times {}", text(&first, "id")?))?;
        self.watch("channel_message", text(&first, "id")?).await
    }

    /// An agent with a valid key but without access is refused.
    async fn impostor(&self) -> Done {
        say("\n5. agent.impostor has a key, but no business here")?;
        say("  it reads the intent")?;
        refused(self.impostor.get(&format!("/intents/{}", self.intent), &[]).await, "access_closed")?;
        say("  it reads the channel")?;
        refused(self.impostor.get(&self.path("/messages"), &[]).await, "not_found")?;
        say("  it says that it is agent.data")?;
        let lie =
            json!({ "sender": "agent.data", "message_type": "notify", "payload": { "answer": "v9.9" } });
        refused(self.impostor.post(&self.path("/messages"), &lie).await, "may_not_act_as")?;
        say("  it makes up a key")?;
        refused(self.root.with_key("ent_made_up").get("/principals/me", &[]).await, "unauthenticated")
    }

    /// An unanswered question expires.
    async fn expiry(&mut self) -> Done {
        say("\n6. A question that nobody answers in time expires; an answer that comes late is refused")?;
        let question = json!({ "to": "agent.data", "timeout": 1, "payload": { "question": "Still there?" } });
        let answer = self.researcher.post(&self.path("/ask"), &question).await?;
        let id = text(&answer["request"], "id")?.to_owned();
        say(&format!("  outcome {} after a second", answer["outcome"]))?;
        hold(answer["outcome"] != "complete", "somebody answered")?;
        let late = json!({ "sender": "agent.data", "payload": { "answer": "yes" } });
        refused(
            self.data.post(&self.path(&format!("/messages/{id}/reply")), &late).await,
            "message_expired",
        )?;
        self.watch("message_expired", &id).await
    }

    /// The hash chain of the log proves its integrity.
    async fn proof(&self) -> Done {
        say(
            "\n10. The intent's log is a chain of hashes: the server signs it, it is exported, and checked without the server",
        )?;
        let checkpoint = self.root.post("/admin/checkpoints", &json!({ "intent_id": self.intent })).await?;
        say(&format!("  signed by {}", text(&checkpoint, "signed_by")?))?;
        let bundle = self.researcher.open(&format!("/intents/{}/export", self.intent)).await?.text().await?;
        let lines = bundle.lines().filter_map(|line| Line::parse(line.as_bytes()));
        for event in lines.filter(|line| line.section == Section::Event).map(|line| Value::Object(line.body))
        {
            let sequence = event["sequence"].as_i64().unwrap_or_default();
            let (kind, actor) = (text(&event, "event_type")?, text(&event, "actor")?);
            say(&format!("  {sequence:>2} {kind:<18} {actor:<17} {}", text(&event, "event_hash")?))?;
        }
        let report = bundles::verify(bundle.as_bytes(), &[])?;
        hold(report.is_clean(), "the log does not verify")?;
        say(&format!("  {} events, every one in its place and unchanged", report.log.event_count))?;
        let audited = |line: &&str| {
            MESSAGE_EVENTS.iter().any(|kind| line.contains(&format!("\"event_type\":\"{kind}\"")))
        };
        let audited = bundle.lines().rfind(audited).ok_or("no message was audited")?;
        let forged = audited.replacen("\"actor\":\"agent.", "\"actor\":\"agent.not_", 1);
        let report = bundles::verify(bundle.replacen(audited, &forged, 1).as_bytes(), &[])?;
        hold(!report.is_clean(), "a forgery was not noticed")?;
        for fault in &report.log.breaks {
            say(&format!("  with one name changed: event {}: {}", fault.sequence, fault.reason))?;
        }
        Ok(())
    }
}
