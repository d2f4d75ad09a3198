//! Tasks of envelopes that require a person's approval (`requires.human_approval`, AEE §3): displayed with
//! their content, and answered one after the other.

use std::collections::HashSet;

use entente_domain::clock::{Clock as _, Timestamp};
use entente_domain::moments::text::{due, plain};
use entente_runtime::environment::SystemClock;
use serde_json::{Value, json};

use super::terminal::say;
use super::{Next, Prompter, unknown};
use crate::Failure;
use crate::remote::{Failure as Refusal, segment};

impl Prompter {
    /// Presents the pending tasks until none is left or the person stops; [`Next::Later`] if some were
    /// skipped.
    pub(super) async fn tasks(&mut self) -> Result<Next, Failure> {
        let mut left: HashSet<String> = HashSet::new();
        loop {
            let all = match self.api.get("/aee/approvals", &[("limit", "100".to_owned())]).await {
                Ok(all) => all,
                // Another principal approves tasks here (`ENTENTE_AEE_APPROVER`), or the key serves other
                // purposes.
                Err(Refusal::Refused { status: 403, .. }) => return Ok(Next::Go),
                Err(failure) => return Err(failure.into()),
            };
            let waiting = all.as_array().into_iter().flatten();
            let mut waiting = waiting.filter_map(|one| Some((one["id"].as_str()?.to_owned(), one)));
            let Some((id, task)) = waiting.find(|(id, _)| !left.contains(id)) else { break };
            match self.one_task(&id, task).await? {
                Next::Go => {}
                Next::Later => drop(left.insert(id)),
                Next::Quit => return Ok(Next::Quit),
            }
        }
        Ok(if left.is_empty() { Next::Go } else { Next::Later })
    }

    async fn one_task(&mut self, id: &str, task: &Value) -> Result<Next, Failure> {
        shown(task).iter().try_for_each(|line| say(line))?;
        // Input typed before the task was shown does not answer it.
        self.terminal.forget()?;
        let path = format!("/aee/approvals/{}", segment(id));
        loop {
            self.terminal.prompt("a) agree, d) decline, n) next, q) quit: ")?;
            let Some(line) = self.terminal.line().await? else { return Ok(Next::Quit) };
            let done = match line.trim() {
                "" => continue,
                "n" => return Ok(Next::Later),
                "q" => return Ok(Next::Quit),
                "a" => {
                    if !self.terminal.confirm("The task is handed out").await? {
                        continue;
                    }
                    self.send(&path, &json!({ "decision": "approve" }), None).await?
                }
                "d" => {
                    let Some(why) = self.terminal.text("Why; who asked is told").await? else { continue };
                    let body = json!({ "decision": "decline", "reason": why });
                    self.send(&path, &body, Some(&why)).await?
                }
                word => {
                    unknown(word)?;
                    continue;
                }
            };
            let Some(done) = done else { return Ok(Next::Later) };
            let agreed = done["decision"] == "approve";
            say(if agreed { "You agreed: it is handed out." } else { "You declined: who asked is told." })?;
            return Ok(Next::Go);
        }
    }
}

/// Renders a task for a person, without control characters from others' text that the terminal would obey.
fn shown(task: &Value) -> Vec<String> {
    let envelope = &task["envelope"];
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let respondents = task["respondents"].as_array().into_iter().flatten().map(text);
    let respondents: Vec<String> = respondents.collect();
    let mut lines = vec![
        format!("\nTASK THAT NEEDS YOUR CONSENT [{}]", text(&task["id"])),
        format!(
            "{} asks {} for {}.",
            text(&envelope["from"]),
            respondents.join(", "),
            text(&envelope["intent"])
        ),
    ];
    if task["verified"]["scope"] == "core" {
        lines.push("Only its core is signed: who carried it may have changed what it requires.".to_owned());
    }
    if task["verified"]["sig"] == "unverified" {
        lines.push("It has a signature that nobody has checked here.".to_owned());
    }
    let end = task["deadline"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    lines.extend(end.map(|end| format!("It lapses {}.", due(end, SystemClock.now()))));
    let payload = serde_json::to_string_pretty(&envelope["payload"]).unwrap_or_default();
    lines.extend(payload.lines().map(|line| format!("  {}", plain(line))));
    lines
}
