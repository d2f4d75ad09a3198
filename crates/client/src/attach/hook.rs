//! `entente attach hook`: one run of a host's hook. It shows the model the entries of the agent's inbox that the session has
//! not seen, once each.
//!
//! Rules. One hook of a session works at a time (`session.rs`). Before it shows anything it marks the entries that the
//! hook before has shown, or proves that it may mark; so an entry that cannot be marked is not shown again and again.
//! It writes the text, and remembers after that how far it went. Whatever fails, the host goes on: the status is 0, and
//! one line on standard error says why.

use std::io::{self, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, stdin};
use tokio::time::{Instant, sleep, timeout};

use super::hosts::{Event, Host, Point, most_stops, stays_open};
use super::session::{Session, State, tidy};
use super::text::{fitting, of_page};
use crate::Failure;
use crate::output::note;
use crate::remote::{Api, Failure as RequestFailure, Remote, place, segment};

/// Time limit of a hook that the host waits for.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of the host's JSON in bytes: it may contain the answer of a tool.
const INPUT_BYTES: u64 = 64 * 1024 * 1024;
/// Entries that are read at once: as many as a page may have.
const PAGE: usize = 200;
/// All levels: a reader that asks for some only loses the others.
const LEVELS: &str = "wake,next,digest";
/// Head start of the hook that the host waits for before the one in the background.
const HEAD_START: Duration = Duration::from_secs(1);
/// Seconds that the server holds one request of a waiting hook.
const POLL_SECONDS: u64 = 20;
/// Pause of a waiting hook between two requests: a flood of entries that do not wake costs little.
const BREATH: Duration = Duration::from_millis(500);
/// Pause of a waiting hook when the server is away.
const PAUSE: Duration = Duration::from_secs(5);
/// Exit status by which a hook in the background wakes the host's model.
const WAKE: i32 = 2;

/// Runs a hook.
pub(super) async fn run(remote: &Remote, host: Host, wait: Option<u64>) {
    let event = match timeout(LIMIT, event()).await {
        Ok(event) => event,
        Err(_late) => Err("the host's JSON did not come on stdin. A host runs this command, not you".into()),
    };
    let done = match (event, wait) {
        (Err(failure), _) => Err(failure),
        (Ok(event), Some(seconds)) => wait_for_wake(remote, host, &event, Duration::from_secs(seconds)).await,
        (Ok(event), None) => match timeout(LIMIT, answer(remote, host, &event)).await {
            Ok(done) => done,
            Err(_late) => Err(format!("no answer from {} within {} s", remote.url(), LIMIT.as_secs()).into()),
        },
    };
    if let Err(failure) = done {
        let line = failure.to_string().replace(['\n', '\r'], " ");
        note(&format!("entente: the inbox was not read: {line}"));
    }
}

/// Reads the host's event.
async fn event() -> Result<Event, Failure> {
    let mut text = Vec::new();
    stdin().take(INPUT_BYTES).read_to_end(&mut text).await?;
    let wrong = |fault| format!("stdin has no event of a hook ({fault})");
    Ok(serde_json::from_slice(&text).map_err(wrong)?)
}

/// Shows the entries that the session has not seen.
async fn answer(remote: &Remote, host: Host, event: &Event) -> Result<(), Failure> {
    let Some(point) = event.point() else { return Ok(()) };
    // The session's own agent is the one that others talk to.
    if event.agent_id.is_some() {
        return Ok(());
    }
    let inbox = Inbox::open(remote).await?;
    let mut session = Session::lock(&inbox.api, &inbox.agent, host, &event.session_id).await?;
    session.begin(event, point);
    session.save()?;
    if point == Point::Start {
        tidy();
        inbox.warn(remote).await?;
    }
    inbox.confirm(&mut session).await?;
    if point == Point::Stop && session.state.stops >= most_stops() {
        return Ok(());
    }
    let page = inbox.page(&mut session.state).await?;
    if point == Point::Idle {
        return tell_user(host, &inbox.agent, &page);
    }
    // Collected entries interrupt nobody: they come along with others, and with the next prompt.
    let is_quiet = matches!(point, Point::Step | Point::Stop);
    if count(&page) == 0 && (is_quiet || page["digest"].is_null()) {
        return Ok(());
    }
    inbox.prove(&session.state, &page).await?;
    let text = of_page(&inbox.agent, &page);
    let mut out = io::stdout().lock();
    writeln!(out, "{}", host.answer(point, &text))?;
    out.flush()?;
    session.state.shown = page["next_place"].as_i64();
    session.save()?;
    Ok(())
}

fn count(page: &Value) -> usize {
    page["entries"].as_array().map_or(0, Vec::len)
}

/// Tells the user that entries wait; they are shown to the model with the next prompt.
fn tell_user(host: Host, agent: &str, page: &Value) -> Result<(), Failure> {
    let (here, left) =
        (count(page), page["newest"].as_i64().unwrap_or(0) - page["next_place"].as_i64().unwrap_or(0));
    if here == 0 {
        return Ok(());
    }
    let more = if page["has_more"] == true && left > 0 { format!(" and {left} more") } else { String::new() };
    let text = format!(
        "Entente: {here}{more} new in the inbox of {agent}; your next prompt shows them to the model."
    );
    writeln!(io::stdout().lock(), "{}", host.answer(Point::Idle, &text))?;
    Ok(())
}

/// Waits for an entry that wakes while the session is idle, and wakes the model with the entries that there are then:
/// the host runs this in the background (Claude Code's `asyncRewake`), and shows its standard error to the model if the
/// status is 2.
async fn wait_for_wake(
    remote: &Remote,
    host: Host,
    event: &Event,
    patience: Duration,
) -> Result<(), Failure> {
    if event.point() != Some(Point::Stop) || event.agent_id.is_some() || !stays_open() {
        return Ok(());
    }
    let until = Instant::now() + patience;
    let parent = rustix::process::getppid();
    sleep(HEAD_START).await;
    let inbox = Inbox::open(remote).await?;
    let me = std::process::id();
    let mut session = Session::lock(&inbox.api, &inbox.agent, host, &event.session_id).await?;
    // The turn goes on with the entries that the other hook has shown; its next end starts another wait.
    if session.state.shown.is_some() {
        return Ok(());
    }
    session.state.waiter = Some(me);
    session.save()?;
    let reader = session.state.reader.clone();
    drop(session);
    let mut since: Option<String> = None;
    while Instant::now() < until && rustix::process::getppid() == parent {
        let wait = POLL_SECONDS.min((until - Instant::now()).as_secs());
        let found = inbox.poll(&reader, since.as_deref(), wait).await;
        let mut session = Session::lock(&inbox.api, &inbox.agent, host, &event.session_id).await?;
        if session.state.waiter != Some(me) || session.state.shown.is_some() {
            return Ok(());
        }
        match found {
            Ok(page) if wakes(&page) => return inbox.wake(&mut session).await,
            // Entries that are collected, or come at the next step, do not wake.
            Ok(page) => {
                since = page["next"].as_str().map(str::to_owned);
                drop(session);
                sleep(BREATH).await;
            }
            // A refused request stays refused.
            Err(failure) if !failure.may_pass() => return Err(failure.into()),
            Err(_away) => {
                drop(session);
                sleep(PAUSE).await;
            }
        }
    }
    Ok(())
}

/// Returns whether a page has an entry that wakes.
fn wakes(page: &Value) -> bool {
    page["entries"].as_array().into_iter().flatten().any(|entry| entry["attention"] == "wake")
}

/// The inbox of the host's agent.
struct Inbox {
    api: Api,
    agent: String,
    path: String,
}

impl Inbox {
    async fn open(remote: &Remote) -> Result<Self, Failure> {
        let api = remote.api()?;
        let agent = api.speaker().await?;
        if agent.is_empty() {
            return Err("the key acts as no agent. Name one that it may act as: --as".into());
        }
        let path = format!("/agents/{}/inbox", segment(&agent));
        Ok(Self { api, agent, path })
    }

    /// Warns of an agent that nobody knows: a key that may act as anybody may also act as a name that was mistyped.
    async fn warn(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(agent) = remote.acting_as() else { return Ok(()) };
        match self.api.get(&format!("/agents/{}/record", segment(agent)), &[]).await {
            Err(RequestFailure::Refused { status: 404, .. }) => note(&format!(
                "entente: nobody has registered {agent}. Check --as, or run: entente agent register {agent}"
            )),
            found => drop(found?),
        }
        Ok(())
    }

    /// Marks the shown entries seen.
    async fn confirm(&self, session: &mut Session) -> Result<(), Failure> {
        if let Some(place) = session.state.shown {
            self.mark(&session.state, place).await?;
            session.state.shown = None;
            session.save()?;
        }
        Ok(())
    }

    /// Proves that this session may mark the entries that it will show: its epoch may be over, or its agent strict.
    async fn prove(&self, state: &State, page: &Value) -> Result<(), Failure> {
        // A mark that moves nothing.
        self.mark(state, page["seen"].as_i64().unwrap_or(0)).await.map(|_reader| ()).map_err(Into::into)
    }

    async fn mark(&self, state: &State, place: i64) -> Result<Value, RequestFailure> {
        self.api
            .post(&format!("{}/seen", self.path), &json!({ "reader": state.reader, "place": place }))
            .await
    }

    async fn read(&self, state: &State, limit: usize) -> Result<Value, RequestFailure> {
        let query = [
            ("reader", state.reader.clone()),
            ("attention", LEVELS.to_owned()),
            ("limit", limit.to_string()),
        ];
        self.api.get(&self.path, &query).await
    }

    /// Reads a page that fits into the text.
    async fn page(&self, state: &mut State) -> Result<Value, Failure> {
        let mut limit = PAGE;
        loop {
            let page = match self.read(state, limit).await {
                Ok(page) => page,
                Err(failure) if is_full(&failure) => {
                    self.adopt(state).await?;
                    self.read(state, limit).await?
                }
                Err(failure) => return Err(failure.into()),
            };
            let fits = fitting(&self.agent, &page);
            if fits >= count(&page) || limit == 1 {
                return Ok(page);
            }
            limit = fits.min(limit - 1);
        }
    }

    /// Waits for entries after a position.
    async fn poll(&self, reader: &str, since: Option<&str>, wait: u64) -> Result<Value, RequestFailure> {
        let mut query =
            vec![("reader", reader.to_owned()), ("attention", LEVELS.to_owned()), ("wait", wait.to_string())];
        query.extend(since.map(|since| ("since", since.to_owned())));
        self.api.get(&self.path, &query).await
    }

    /// Wakes the model with the entries that the session has not seen, and ends the process.
    async fn wake(&self, session: &mut Session) -> Result<(), Failure> {
        let page = self.page(&mut session.state).await?;
        if count(&page) == 0 {
            return Ok(());
        }
        self.prove(&session.state, &page).await?;
        let mut out = io::stderr().lock();
        writeln!(out, "{}", of_page(&self.agent, &page))?;
        out.flush()?;
        session.state.shown = page["next_place"].as_i64();
        session.state.waiter = None;
        session.save()?;
        std::process::exit(WAKE);
    }

    /// Takes over the reader of the host's session that was silent for longest, because an inbox has a limited number. It
    /// begins where a new reader would: where the furthest one is.
    async fn adopt(&self, state: &mut State) -> Result<(), Failure> {
        let inbox = self.api.get(&format!("{}/settings", self.path), &[]).await?;
        let readers = inbox["readers"].as_array().cloned().unwrap_or_default();
        let host = state.reader.split(':').next().unwrap_or_default().to_owned();
        let own = |reader: &&Value| {
            reader["reader"].as_str().is_some_and(|name| name.split(':').next() == Some(host.as_str()))
        };
        let oldest =
            readers.iter().filter(own).min_by_key(|reader| reader["used_at"].as_str().unwrap_or_default());
        let oldest =
            oldest.ok_or("the inbox has as many readers as it may have, and none is of this host")?;
        oldest["reader"].as_str().unwrap_or_default().clone_into(&mut state.reader);
        let furthest = readers.iter().filter_map(|reader| reader["place"].as_i64()).max().unwrap_or(0);
        self.mark(state, furthest).await?;
        Ok(())
    }
}

/// Returns whether an inbox has no room for another reader.
fn is_full(failure: &RequestFailure) -> bool {
    failure.errors().any(|error| error["type"] == "too_many" && place(error).ends_with("reader"))
}
