//! `entente moment`: questions to people and their outcomes, as plain text that reads the same everywhere
//! (binding moment §8). `decide.rs` answers questions.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use entente_domain::canonical::Unambiguous;
use entente_domain::clock::{Clock as _, Timestamp};
use entente_domain::moments::text::{QuestionContext, due, plain, text};
use entente_domain::moments::{Brief, Malformed};
use entente_runtime::environment::SystemClock;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Done;
use super::output::note;
use super::remote::{Api, Failure, Remote, segment};

/// Questions to people: list, show, ask, wait, render, and an example
#[derive(Debug, Args)]
pub(super) struct Moments {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the questions that you asked or are asked, newest first
    List {
        /// Only questions in this state, such as open
        #[arg(long)]
        state: Option<String>,
        /// Only questions to this person
        #[arg(long, value_name = "PERSON")]
        to: Option<String>,
        /// Maximum number of questions
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show a question in full
    Show {
        /// The moment's id
        moment: String,
    },
    /// Ask a person: the eight slots, as JSON
    Ask(Ask),
    /// Print a question to begin with, for `ask`
    Example,
    /// Wait until a question is no longer open, and show its outcome
    Wait {
        /// The moment's id
        moment: String,
    },
    /// Show the question in a tool's result, or else the result's text
    Render {
        /// The file with the tool's result as JSON; `-` for standard input
        #[arg(default_value = "-")]
        file: String,
    },
}

#[derive(Debug, Args)]
struct Ask {
    /// The person to ask
    person: String,
    /// The file with the slots; `-` for standard input
    #[arg(default_value = "-")]
    file: String,
    /// Seconds until the question expires [default: a day]
    #[arg(long, value_name = "SECONDS")]
    expires_in: Option<u32>,
    /// The job that waits for the answer
    #[arg(long)]
    job: Option<String>,
    /// The intent that the question concerns
    #[arg(long)]
    intent: Option<String>,
    /// The reason for a closed hatch
    #[arg(long, value_name = "TEXT")]
    hatch_justification: Option<String>,
    /// The refused question that this one replaces
    #[arg(long, value_name = "MOMENT", requires = "objection_response")]
    supersedes: Option<String>,
    /// How the objection to the replaced question was addressed
    #[arg(long, value_name = "TEXT")]
    objection_response: Option<String>,
}

/// A question with all its slots, such as `entente moment ask` takes it.
pub const EXAMPLE: &str = include_str!("../../../examples/question.json");

/// Seconds that the server may hold a request that waits for news.
const WAIT: &str = "25";
/// Pause after an unavailable server, or after an immediate answer from a server that is about to stop.
const PAUSE: Duration = Duration::from_secs(2);

impl Moments {
    pub(super) async fn run(self) -> Done {
        let Self { remote, verb } = self;
        match verb {
            Verb::List { state, to, limit } => {
                let mut query = Vec::new();
                query.extend(state.map(|state| ("state", state)));
                query.extend(to.map(|person| ("principal", person)));
                let found = list(&remote.api()?, query, limit).await?;
                remote.show(&found, &["id", "state", "agent_id", "principal_id", "expires_at"])
            }
            Verb::Show { moment } => {
                let found = remote.api()?.get(&path(&moment), &[]).await?;
                print(&remote, &found)
            }
            Verb::Ask(ask) => {
                let body = json!({
                    "principal_id": ask.person, "binding_moment": read(&ask.file)?, "expires_in": ask.expires_in,
                    "job_id": ask.job, "intent_id": ask.intent, "hatch_justification": ask.hatch_justification,
                    "supersedes": ask.supersedes, "objection_response": ask.objection_response,
                });
                let asked = remote.api()?.post("/moments", &body).await?;
                for lint in asked["lints"].as_array().into_iter().flatten() {
                    note(&format!("remarked: {}", plain(lint["note"].as_str().unwrap_or_default())));
                }
                print(&remote, &asked)
            }
            Verb::Example => {
                io::stdout().lock().write_all(EXAMPLE.as_bytes())?;
                Ok(())
            }
            Verb::Wait { moment } => {
                let api = remote.api()?;
                let mut found = api.get(&path(&moment), &[]).await?;
                while is_open(&found) {
                    found = news(&api, &found).await?;
                }
                print(&remote, &found)
            }
            Verb::Render { file } => render(&file),
        }
    }
}

/// Returns the latest `limit` moments. A short page does not mean the end.
async fn list(api: &Api, query: Vec<(&str, String)>, limit: u32) -> Result<Value, Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(found.len());
        let mut query = query.clone();
        query.push(("limit", wanted.to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut page = api.get("/moments", &query).await?;
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if let Value::Array(moments) = page["moments"].take() {
            found.extend(moments);
        }
        if cursor.is_none() || found.len() >= limit as usize {
            return Ok(Value::Array(found));
        }
    }
}

/// Returns the path of a moment.
#[must_use]
pub fn path(moment: &str) -> String {
    format!("/moments/{}", segment(moment))
}

/// Waits until a moment has changed and returns it; retries while the server is unavailable or busy.
///
/// # Errors
/// The server refuses.
pub async fn news(api: &Api, moment: &Value) -> Result<Value, Failure> {
    let path = path(moment["id"].as_str().unwrap_or_default());
    let query = [("wait", WAIT.to_owned()), ("seen", moment["version"].to_string())];
    loop {
        let asked = Instant::now();
        match api.get(&path, &query).await {
            // A lapsed moment changes its state before its version.
            Ok(now) if now["version"] != moment["version"] || now["state"] != moment["state"] => {
                return Ok(now);
            }
            Ok(_) if asked.elapsed() >= PAUSE => {}
            Ok(_) => sleep(PAUSE).await,
            Err(failure) if failure.may_pass() => sleep(PAUSE).await,
            Err(failure) => return Err(failure),
        }
    }
}

/// Reads a file, or standard input.
fn contents(file: &str) -> Result<String, super::Failure> {
    if file != "-" {
        return Ok(fs::read_to_string(file).map_err(|e| format!("{file} cannot be read: {e}"))?);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Reads a question to ask.
///
/// Rejects duplicate members: parsers disagree about them, and the server would see only the one that is
/// forwarded.
fn read(file: &str) -> Result<Value, super::Failure> {
    let read = serde_json::from_str(&contents(file)?);
    let Unambiguous(value) =
        read.map_err(|e| format!("what is in {file} is not JSON: {}", plain(&e.to_string())))?;
    Ok(value)
}

fn print(remote: &Remote, moment: &Value) -> Done {
    if remote.json {
        return remote.show(moment, &[]);
    }
    let (text, fault) = written(moment, SystemClock.now());
    diagnose(fault.as_ref());
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

fn diagnose(fault: Option<&Malformed>) {
    if let Some(fault) = fault {
        note(&format!(
            "This is no question that can be shown: {fault}. It is left out; do not answer it elsewhere."
        ));
    }
}

/// Renders a moment as text; a malformed question is returned as the error and left out (binding moment §4).
pub fn written(moment: &Value, now: Timestamp) -> (String, Option<Malformed>) {
    let member = |name: &str| moment[name].as_str();
    let read = match (&moment["binding_moment"], member("malformed")) {
        (Value::Null, Some(why)) => Err(Malformed(why.to_owned())),
        (Value::Null, None) => Ok(None),
        (slots, _) => Brief::received(slots).map(Some),
    };
    let shown = QuestionContext {
        id: member("id").and_then(|id| id.parse().ok()),
        agent_id: member("agent_id"),
        expires_at: member("expires_at").and_then(|at| at.parse().ok()).filter(|_| is_open(moment)),
        now,
        objection_response: member("objection_response"),
        inbox_url: None,
    };
    let (mut all, fault) = match read {
        Ok(Some(brief)) => (text(&brief, &shown), None),
        Ok(None) => (bare(moment), None),
        Err(fault) => {
            (format!("{}{}\n", bare(moment), plain(member("fallback_text").unwrap_or("-"))), Some(fault))
        }
    };
    all.push_str(&around(moment, now));
    (all, fault)
}

/// Returns whether the moment can still be answered.
pub(super) fn is_open(moment: &Value) -> bool {
    moment["state"] == "open"
}

/// Renders the line that replaces a missing question.
fn bare(moment: &Value) -> String {
    let member = |name: &str| plain(moment[name].as_str().unwrap_or("-"));
    format!("[{}]  from: {}  to: {}\n", member("id"), member("agent_id"), member("principal_id"))
}

/// Renders the rest of a moment: the waiting job, the conversation, and the outcome.
fn around(moment: &Value, now: Timestamp) -> String {
    let mut lines = String::new();
    // Writing into a `String` cannot fail.
    if let (Some(job), false) = (moment["job_id"].as_str(), moment["ended_at"].is_string()) {
        let _ = write!(lines, "The job {} waits", plain(job));
        let end = moment["job"]["lease_expires_at"].as_str().and_then(|at| at.parse().ok());
        if let Some(end) = end {
            let _ = write!(lines, "; its lease ends at {}", due(end, now));
        }
        lines.push_str(".\n");
    }
    for line in said(moment, 0) {
        let _ = writeln!(lines, "{line}");
    }
    if !is_open(moment) {
        let _ = writeln!(lines, "{}", outcome(moment));
    }
    lines
}

/// Renders the conversation, without its first `skip` entries.
pub(super) fn said(moment: &Value, skip: usize) -> Vec<String> {
    let words = moment["words"].as_array().into_iter().flatten().skip(skip);
    words
        .map(|word| {
            let member = |name: &str| word[name].as_str();
            let what = match member("kind") {
                Some("detail_asked") => "asks for detail",
                Some("detail") => "gives detail",
                Some("deliberation") => "deliberates",
                _ => "replies",
            };
            let text = member("text").map_or_else(|| "(taken out)".to_owned(), plain);
            format!("  {} {what}: {text}", plain(member("author").unwrap_or("-")))
        })
        .collect()
}

/// Renders the outcome, in one line.
pub(super) fn outcome(moment: &Value) -> String {
    let state = moment["state"].as_str().unwrap_or("unknown");
    let answer = &moment["resolution"];
    let mut line = match answer["kind"].as_str() {
        None => state.to_owned(),
        Some("option") => {
            let idx = answer["option_idx"].as_u64().unwrap_or_default();
            let label = usize::try_from(idx)
                .ok()
                .map(|at| &moment["binding_moment"]["question"]["options"][at]["label"]);
            let label = label.and_then(Value::as_str).map(|label| format!(" {}", plain(label)));
            format!("{state}: {}){}", idx + 1, label.unwrap_or_default())
        }
        Some("free_text") => {
            format!("{state}: {}", plain(answer["answer"].as_str().unwrap_or("(taken out)")))
        }
        Some(_) => {
            let objection = plain(answer["objection"].as_str().unwrap_or("(taken out)"));
            format!("{state}, refused as a question: {objection}")
        }
    };
    if let (Some(by), Some(via)) = (answer["resolved_by"].as_str(), answer["resolved_via"].as_str()) {
        let _ = write!(line, " ({} by {})", plain(by), plain(via));
    }
    if let Some(reason) = moment["end_reason"].as_str() {
        let _ = write!(line, " ({})", plain(reason));
    }
    line
}

/// Renders a tool's result: the question that it carries, whether announced or not, in full; otherwise its
/// text (binding moment §7.2, §8.3).
fn render(file: &str) -> Done {
    let given = contents(file)?;
    let broken = |e: serde_json::Error| format!("what is in {file} is not JSON: {}", plain(&e.to_string()));
    let result: Value = serde_json::from_str(&given).map_err(broken)?;
    // Duplicate members make the question ambiguous.
    let twice = serde_json::from_str::<Unambiguous>(&given).err();
    let twice = twice.map(|e| Malformed(plain(&format!("the result is not JSON that all read alike: {e}"))));
    let carried = [&result["binding_moment"], &result["structuredContent"]["binding_moment"]];
    let mut shown = None;
    if let Some(slots) = carried.into_iter().find(|slots| !slots.is_null()) {
        match twice.map_or_else(|| Brief::received(slots), Err) {
            Ok(brief) => {
                let id = result["structuredContent"]["moment_id"].as_str().and_then(|id| id.parse().ok());
                let now = SystemClock.now();
                let around = QuestionContext {
                    id,
                    agent_id: None,
                    expires_at: None,
                    now,
                    objection_response: None,
                    inbox_url: None,
                };
                shown = Some(text(&brief, &around));
            }
            Err(fault) => diagnose(Some(&fault)),
        }
    }
    let shown = shown.unwrap_or_else(|| conventional(&result));
    io::stdout().lock().write_all(shown.as_bytes())?;
    Ok(())
}

/// Renders the text of a result without a question.
fn conventional(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() {
        return plain(&result.to_string()) + "\n";
    }
    texts.iter().flat_map(|text| text.lines()).fold(String::new(), |all, line| all + &plain(line) + "\n")
}

/// Returns a refusal's message without control characters; others may have written it.
pub(super) fn complaint(failure: &Failure) -> String {
    plain(&failure.full())
}
