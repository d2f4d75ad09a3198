//! `entente decide`: a person at a terminal answers the pending questions, one after the other (binding
//! moment §8.2). It asks for a key that the browser login issues for ten minutes, and accepts no other: a key
//! in a file or in the environment can be read by every agent that runs as the same user (§11.4).
//! `moments.rs` renders a question, and `decide/terminal.rs` reads the terminal. After the questions come the
//! tasks of envelopes that require a person's approval (AEE §3, `decide/tasks.rs`).

mod tasks;
mod terminal;

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};

use clap::Args;
use entente_domain::clock::{Clock as _, Timestamp};
use entente_domain::ids::envelope_id;
use entente_domain::moments::text::{due, plain};
use entente_domain::moments::{Brief, Question};
use entente_runtime::environment::{OsChance, SystemClock};
use serde_json::{Value, json};

use self::terminal::{Terminal, say};
use super::moments::{self, complaint, is_open, outcome, path, said, written};
use super::remote::{Api, Failure as Refusal, Remote};
use super::{Done, Failure};

/// Label of a key that a login issues for a terminal.
const TERMINAL: &str = "terminal";

/// Answer the questions and approvals that wait for you; needs a terminal, and a ten-minute key from the
/// page /terminal
#[derive(Debug, Args)]
pub(super) struct Decide {
    #[command(flatten)]
    remote: Remote,
    /// Only this moment [default: all that wait for you]
    moment: Option<String>,
}

/// Outcome of one question.
enum Next {
    /// Go to the next one.
    Go,
    /// Leave it open and go to the next one.
    Later,
    /// Stop.
    Quit,
}

impl Decide {
    pub(super) async fn run(self) -> Done {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Err("a decision is made by a person at a terminal, and this is none. \
                        `entente moment list` and `show` print questions anywhere"
                .into());
        }
        tokio::select! {
            done = self.one_by_one() => done,
            // Nothing entered so far is sent, and typed text is echoed again: the terminal's guard is dropped
            // with the rest.
            told = tokio::signal::ctrl_c() => Ok(told?),
        }
    }

    async fn one_by_one(self) -> Done {
        let mut prompter = Prompter {
            api: self.remote.api()?,
            url: self.remote.url().to_owned(),
            terminal: Terminal::open(),
        };
        if !prompter.let_in().await? {
            return Ok(());
        }
        let mut left = HashSet::new();
        loop {
            let waiting = match &self.moment {
                Some(moment) => vec![moment.clone()],
                None => prompter.inbox().await?,
            };
            let Some(moment) = waiting.into_iter().find(|id| !left.contains(id)) else { break };
            match prompter.present(&moment).await? {
                Next::Go => {}
                Next::Later => drop(left.insert(moment.clone())),
                Next::Quit => return Ok(()),
            }
            left.extend(self.moment.clone());
        }
        if self.moment.is_none() {
            match prompter.tasks().await? {
                Next::Go => {}
                Next::Later => left.extend([String::new()]),
                Next::Quit => return Ok(()),
            }
        }
        say(if left.is_empty() { "Nothing waits for you." } else { "That was all." })
    }
}

/// Session of a person at a terminal.
struct Prompter {
    api: Api,
    url: String,
    terminal: Terminal,
}

impl Prompter {
    /// Asks for a key until one is accepted; returns whether that happened.
    async fn let_in(&mut self) -> Result<bool, Failure> {
        say(&format!(
            "Open {}/terminal in the browser where you are logged in, and paste the key here.",
            self.url
        ))?;
        while let Some(key) = self.terminal.secret("Key (it is not shown): ").await? {
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                say("This is no key: it has letters that none has.")?;
                continue;
            }
            let api = self.api.with_key(&key);
            match api.get("/principals/me", &[]).await {
                Ok(me) if me["kind"] == "human" && me["key"]["label"] == TERMINAL => {
                    let name = plain(me["principal_id"].as_str().unwrap_or_default());
                    let until = me["key"]["expires_at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
                    let until = until.map(|at| format!(", until {}", due(at, SystemClock.now())));
                    say(&format!("You decide as {name}{}.", until.unwrap_or_default()))?;
                    self.api = api;
                    return Ok(true);
                }
                Ok(_) => say(&format!("This key is not a terminal's. Get one at {}/terminal.", self.url))?,
                Err(failure) => say(&complaint(&failure))?,
            }
        }
        Ok(false)
    }

    /// Returns the ids of all pending moments, page by page.
    async fn inbox(&self) -> Result<Vec<String>, Failure> {
        let (mut ids, mut query) = (Vec::new(), Vec::new());
        loop {
            let found = self.api.get("/moments/inbox", &query).await?;
            let page = found["moments"].as_array().into_iter().flatten();
            ids.extend(page.filter_map(|one| one["id"].as_str().map(str::to_owned)));
            match found["next_cursor"].as_str() {
                Some(cursor) => query = vec![("cursor", cursor.to_owned())],
                None => return Ok(ids),
            }
        }
    }

    /// Shows a question and carries out the person's commands until the moment is no longer pending or the
    /// person moves on.
    async fn present(&mut self, id: &str) -> Result<Next, Failure> {
        let mut moment = self.api.post(&format!("{}/view", path(id)), &json!({})).await?;
        let (text, fault) = written(&moment, SystemClock.now());
        say(&format!("\n{}", text.trim_end()))?;
        if let Some(fault) = fault {
            say(&format!("Its question cannot be shown, and so not be answered: {fault}"))?;
        }
        // Input typed before the question was shown does not answer it.
        self.terminal.forget()?;
        let mut asked = false;
        loop {
            if !waits(&moment) {
                return Ok(Next::Go);
            }
            if !asked {
                self.terminal.prompt(&choices(&moment))?;
            }
            let line = tokio::select! {
                line = self.terminal.line() => line?,
                news = news(&self.api, &moment) => {
                    // News without effect on the person's choices must not discard a half-typed line.
                    asked = !tell(&moment, &news)?;
                    moment = news;
                    if !asked {
                        self.terminal.forget()?;
                    }
                    continue;
                }
            };
            asked = false;
            let Some(line) = line else { return Ok(Next::Quit) };
            match line.trim() {
                "" => {}
                "n" => return Ok(Next::Later),
                "q" => return Ok(Next::Quit),
                word => match self.act(&moment, word).await? {
                    Some(now) => {
                        if !waits(&now) {
                            say(&outcome(&now))?;
                        }
                        moment = now;
                    }
                    // Whether or not the command succeeded, continue from the current state.
                    None => moment = self.api.get(&path(id), &[]).await?,
                },
            }
        }
    }

    /// Carries out one command. Returns the moment afterwards, or `None` if nothing was done.
    async fn act(&mut self, moment: &Value, word: &str) -> Result<Option<Value>, Failure> {
        let question = question(moment);
        let hatches = question.as_ref().map(|question| question.hatches);
        let free_text = hatches.is_some_and(|hatches| hatches.free_text);
        let dialogue = hatches.is_some_and(|hatches| hatches.dialogue);
        let (open, deliberating) = (is_open(moment), moment["state"] == "deliberating");
        match word {
            "t" if open && free_text => self.answer(moment, "free_text", "answer", "Your answer").await,
            "d" if open && dialogue => {
                self.answer(moment, "dialogue", "objection", "What is wrong with the question").await
            }
            "a" if open => self.talk(moment, "What you want to know").await,
            "r" if deliberating => self.talk(moment, "Your reply").await,
            "c" if deliberating => {
                let agent = plain(moment["agent_id"].as_str().unwrap_or_default());
                if !self.terminal.confirm(&format!("This ends it; {agent} may ask what it likes")).await? {
                    return Ok(None);
                }
                self.commit(moment, "close", &json!({}), None).await
            }
            number if open => {
                let options = question.as_ref().map_or(&[][..], |question| &question.options);
                let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let Some((at, option)) = at.and_then(|at| Some((at, options.get(at)?))) else {
                    return unknown(word);
                };
                let label = plain(&option.label);
                if !self.terminal.confirm(&format!("You answer {number}) {label}")).await? {
                    return Ok(None);
                }
                let resolution = json!({ "kind": "option", "option_idx": at });
                self.resolve(moment, &resolution, None).await
            }
            _ => unknown(word),
        }
    }

    /// Sends an answer in the person's own words.
    async fn answer(
        &mut self,
        moment: &Value,
        kind: &str,
        member: &str,
        what: &str,
    ) -> Result<Option<Value>, Failure> {
        let Some(text) = self.terminal.text(what).await? else { return Ok(None) };
        let mut resolution = json!({ "kind": kind });
        resolution[member] = json!(&text);
        self.resolve(moment, &resolution, Some(&text)).await
    }

    async fn resolve(
        &mut self,
        moment: &Value,
        resolution: &Value,
        words: Option<&str>,
    ) -> Result<Option<Value>, Failure> {
        // The answer refers to the question that was displayed.
        let body = json!({ "envelope_digest": moment["envelope_digest"], "resolution": resolution });
        self.commit(moment, "resolution", &body, words).await
    }

    /// Sends words that do not answer the question.
    async fn talk(&mut self, moment: &Value, what: &str) -> Result<Option<Value>, Failure> {
        let Some(text) = self.terminal.text(what).await? else { return Ok(None) };
        self.commit(moment, "words", &json!({ "text": text }), Some(&text)).await
    }

    /// Sends a request about the moment; the server executes it once, however often it is sent.
    ///
    /// Expired keys, an unavailable server and refusals lose no input: only the person discards it.
    async fn commit(
        &mut self,
        moment: &Value,
        verb: &str,
        body: &Value,
        words: Option<&str>,
    ) -> Result<Option<Value>, Failure> {
        let path = format!("{}/{verb}", path(moment["id"].as_str().unwrap_or_default()));
        self.send(&path, body, words).await
    }

    /// As [`Self::commit`], for any path.
    async fn send(
        &mut self,
        path: &str,
        body: &Value,
        words: Option<&str>,
    ) -> Result<Option<Value>, Failure> {
        let once = envelope_id(SystemClock.now(), &OsChance::default());
        loop {
            let failure = match self.api.post_once(path, body, &once).await {
                Ok(now) => return Ok(Some(now)),
                Err(failure) => failure,
            };
            let again = match failure {
                Refusal::Refused { status: 401, .. } => {
                    say("Your key is over. Nothing was sent yet, and nothing is lost.")?;
                    self.let_in().await? || self.terminal.confirm("Keep this, and try another key").await?
                }
                failure => {
                    say(&complaint(&failure))?;
                    failure.may_pass() && self.terminal.confirm("Try again").await?
                }
            };
            if !again {
                if let Some(words) = words {
                    say("What you wrote was not sent:")?;
                    words.lines().try_for_each(|line| say(&format!("  {}", plain(line))))?;
                }
                return Ok(None);
            }
        }
    }
}

/// Returns the question of a moment if it can be displayed exactly: no other can be answered (binding moment
/// §4).
fn question(moment: &Value) -> Option<Question> {
    Brief::received(&moment["binding_moment"]).ok().map(|brief| brief.question)
}

fn unknown(word: &str) -> Result<Option<Value>, Failure> {
    say(&format!("`{}` is none of the choices; nothing was done.", plain(word)))?;
    Ok(None)
}

/// Returns whether the moment waits for its person.
fn waits(moment: &Value) -> bool {
    is_open(moment) || moment["state"] == "deliberating"
}

/// Returns the prompt with the possible commands; no answer is preselected.
fn choices(moment: &Value) -> String {
    if !is_open(moment) {
        return "r) reply, c) close, n) next, q) quit: ".to_owned();
    }
    let mut all = String::new();
    if let Some(question) = question(moment) {
        all = format!("1-{}, ", question.options.len());
        for (is_open, letter) in [(question.hatches.free_text, "t, "), (question.hatches.dialogue, "d, ")] {
            all.push_str(if is_open { letter } else { "" });
        }
    }
    all + "a) ask for detail, n) next, q) quit: "
}

/// Waits for news of a moment. A failure stays silent here, because the next command reports it.
async fn news(api: &Api, moment: &Value) -> Value {
    match moments::news(api, moment).await {
        Ok(now) => now,
        Err(_told_later) => std::future::pending().await,
    }
}

/// Prints the changes that occurred in the meantime; returns whether there were any.
fn tell(before: &Value, now: &Value) -> Result<bool, Failure> {
    let heard = before["words"].as_array().map_or(0, Vec::len);
    let words = said(now, heard);
    let moved = before["state"] != now["state"];
    if words.is_empty() && !moved {
        return Ok(false);
    }
    say("")?;
    words.iter().try_for_each(|line| say(line))?;
    match (waits(now), moved) {
        (false, _) => say(&format!("It needs no answer any more: {}", outcome(now)))?,
        (true, true) => say(&outcome(now))?,
        (true, false) => {}
    }
    Ok(true)
}
