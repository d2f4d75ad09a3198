//! `entente top`: work, agents, decisions and budgets at a glance, renewed every few seconds. `top/view.rs` draws it.

mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use clap::Args;
use entente_domain::moments::text::plain;
use entente_runtime::signals::Signals;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Done;
use super::output::print_json;
use super::remote::{Api, Failure, Remote};

/// Longest lists that are read: more would not fit on a screen.
const ROWS: u32 = 50;
/// Counters of `/metrics` whose growth is shown: the label, and the series, whose labels are added up.
const COUNTERS: [(&str, &str); 3] = [
    ("messages/s", "entente_messages_total"),
    ("requests/s", "entente_http_requests_total"),
    ("jobs ended/s", "entente_jobs_ended_total"),
];

/// Watch work, agents, decisions and budgets; without a terminal print them once
///
/// Parts that the key may not see are left out, with the reason.
#[derive(Debug, Args)]
pub(super) struct Top {
    #[command(flatten)]
    remote: Remote,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    /// Print once and end
    #[arg(long)]
    once: bool,
}

/// Answer to one question, or why there is none.
type Answer = Result<Value, Failure>;

/// The answers of one look.
#[derive(Debug)]
struct Look {
    counts: Answer,
    running: Answer,
    agents: Answer,
    moments: Answer,
    waits: Answer,
    budgets: Answer,
    counters: Vec<f64>,
    at: Instant,
}

impl Look {
    async fn take(api: &Api) -> Self {
        let limit = || ("limit", ROWS.to_string());
        let (running_query, open_query) =
            ([("status", "running".to_owned()), limit()], [("state", "open".to_owned()), limit()]);
        let (agents_query, budgets_query) = ([("limit", "1000".to_owned())], [limit()]);
        let (counts, running, agents, moments, waits, budgets, text) = tokio::join!(
            api.get("/jobs/counts", &[]),
            api.get("/jobs", &running_query),
            api.get("/agents", &agents_query),
            api.get("/moments", &open_query),
            api.get("/waits", &[]),
            api.get("/budgets", &budgets_query),
            api.metrics(),
        );
        // A server behind a proxy may show no metrics; rates are a help, no answer.
        let counters = text.map(|text| counters(&text)).unwrap_or_default();
        Self { counts, running, agents, moments, waits, budgets, counters, at: Instant::now() }
    }

    /// Requires that one of the questions was answered: a key that may see nothing, or no server, is a failure.
    fn answered(self) -> Result<Self, Failure> {
        let others = [&self.running, &self.agents, &self.moments, &self.waits, &self.budgets];
        match self.counts {
            Err(failure) if others.iter().all(|answer| answer.is_err()) => Err(failure),
            _ => Ok(self),
        }
    }

    fn json(&self) -> Value {
        let of = |answer: &Answer| answer.as_ref().ok().cloned().unwrap_or(Value::Null);
        json!({
            "jobs": of(&self.counts), "running": of(&self.running)["jobs"], "agents": of(&self.agents),
            "moments": of(&self.moments)["moments"], "waits": of(&self.waits), "budgets": of(&self.budgets)["budgets"],
        })
    }
}

/// Adds up the series of the counters that are shown.
fn counters(text: &str) -> Vec<f64> {
    let sum = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let values = lines.filter(|rest| rest.starts_with(['{', ' ']));
        values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    COUNTERS.iter().map(|(_, name)| sum(name)).collect()
}

/// Returns by how much the counters grew per second; nothing after a restart of the server.
fn rates(before: &Look, now: &Look) -> Vec<(&'static str, f64)> {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let grown = before.counters.iter().zip(&now.counters).zip(COUNTERS);
    let grown = grown.map(|((before, now), (label, _))| (label, (now - before) / seconds));
    grown.filter(|(_, rate)| *rate >= 0.0 && rate.is_finite()).collect()
}

/// Guard of the terminal's second screen: the first one comes back when it is dropped.
struct Screen;

impl Screen {
    fn open() -> io::Result<Self> {
        write!(io::stdout().lock(), "\x1b[?1049h\x1b[?25l")?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout().lock();
        // The program ends; a terminal that is gone needs nothing.
        let _written = write!(out, "\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
    }
}

impl Top {
    pub(super) async fn run(self) -> Done {
        let api = self.remote.api()?;
        if self.once || self.remote.json || !io::stdout().is_terminal() {
            let look = Look::take(&api).await.answered()?;
            if self.remote.json {
                return print_json(&look.json());
            }
            let lines = view::lines(&look, &[]);
            lines.iter().try_for_each(|line| writeln!(io::stdout().lock(), "{line}"))?;
            return Ok(());
        }
        let pause =
            Duration::try_from_secs_f64(self.interval.clamp(0.2, 3_600.0)).unwrap_or(Duration::from_secs(2));
        let mut signals = Signals::listen()?;
        let _screen = Screen::open()?;
        tokio::select! {
            ended = watch(&api, self.remote.url(), pause) => ended,
            () = signals.told() => Ok(()),
        }
    }
}

async fn watch(api: &Api, url: &str, pause: Duration) -> Done {
    let head = format!("{url}  every {:.1} s, Ctrl-C ends it", pause.as_secs_f64());
    let mut before: Option<Look> = None;
    loop {
        let lines = match Look::take(api).await.answered() {
            Ok(look) => {
                let rates = before.as_ref().map(|before| rates(before, &look)).unwrap_or_default();
                let lines = view::lines(&look, &rates);
                before = Some(look);
                lines
            }
            // A server that stops or starts is worth waiting for; a refusal is final.
            Err(failure) if failure.may_pass() => vec![String::new(), plain(&failure.to_string())],
            Err(failure) => return Err(failure.into()),
        };
        draw(&head, &lines)?;
        sleep(pause).await;
    }
}

/// Replaces the screen's content: as many lines as fit, cut where it ends.
fn draw(head: &str, lines: &[String]) -> io::Result<()> {
    let (width, height) = size();
    let mut frame = String::from("\x1b[H");
    for line in std::iter::once(head).chain(lines.iter().map(String::as_str)).take(height.saturating_sub(1)) {
        frame.extend(line.chars().take(width));
        frame += "\x1b[K\r\n";
    }
    frame += "\x1b[J";
    let mut out = io::stdout().lock();
    out.write_all(frame.as_bytes())?;
    out.flush()
}

/// Columns and rows of the terminal.
fn size() -> (usize, usize) {
    let found = tcgetwinsize(io::stdout()).map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    found.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up_by_their_whole_name() {
        let text = "# TYPE entente_messages counter\nentente_messages_total 5\nentente_http_requests_total{status=\"200\"} 2\n\
                    entente_http_requests_total{status=\"404\"} 3\nentente_messages_total_of_others 70\n# EOF\n";
        assert_eq!(counters(text), [5.0, 5.0, 0.0]);
    }
}
