//! Displays a job on a terminal: one line per event, and below them a status line with its progress and
//! remaining budget. Without a terminal there are only the event lines.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use serde_json::Value;

use crate::Done;

/// Characters of the progress bar and of the budget gauge.
const BAR: usize = 24;
const GAUGE: usize = 10;
/// Characters of an event line; longer lines are cut.
const SHORT: usize = 400;
/// Characters of the message beside the bar, and of the whole status line: a terminal has 80 columns.
const BESIDE: usize = 30;
const BELOW: usize = 78;

/// Output for one job.
#[derive(Debug)]
pub(super) struct Screen {
    /// Whether the output is a terminal, and thus has a status line.
    live: bool,
    /// The job's last progress report.
    progress: Option<Value>,
    /// Budget by unit: the allowed and the remaining amount.
    budget: BTreeMap<String, (f64, f64)>,
}

impl Screen {
    pub(super) fn new(live: bool, budget: &Value) -> Self {
        let amounts = budget.as_object().into_iter().flatten();
        let budget =
            amounts.filter_map(|(unit, amount)| Some((unit.clone(), (amount.as_f64()?, amount.as_f64()?))));
        Self { live, progress: None, budget: budget.collect() }
    }

    /// Shows one of the job's envelopes.
    pub(super) fn show(&mut self, envelope: &Value) -> Done {
        let payload = &envelope["payload"];
        let (kind, body) = (payload["kind"].as_str().unwrap_or_default(), &payload["body"]);
        let spent = self.note(kind, body);
        let over = envelope["type"] != "job.event";
        let mut out = io::stdout().lock();
        if self.live {
            write!(out, "\r\x1b[2K")?;
        }
        // Information in the status line is not repeated above it.
        if over || !self.live || !(kind == "progress" || spent) {
            writeln!(out, "{}", line(envelope))?;
        }
        if self.live && !over {
            write!(out, "{}", self.below())?;
        }
        out.flush()?;
        Ok(())
    }

    /// Updates the data of the status line; returns whether the event reports the remaining budget.
    fn note(&mut self, kind: &str, body: &Value) -> bool {
        match kind {
            "progress" => self.progress = Some(body.clone()),
            "metric" if body["name"] == "cost.budget.remaining" => {
                if let (Some(unit), Some(value)) = (body["unit"].as_str(), body["value"].as_f64()) {
                    self.budget.entry(unit.to_owned()).or_insert((value, value)).1 = value;
                    return true;
                }
            }
            _ => {}
        }
        false
    }

    fn below(&self) -> String {
        let mut parts = Vec::new();
        if let Some(progress) = &self.progress {
            let (current, total) = (progress["current"].as_f64().unwrap_or(0.0), progress["total"].as_f64());
            let bar = total.map(|total| bar(current, total, BAR)).unwrap_or_default();
            let of = total.map(|total| format!("/{total}")).unwrap_or_default();
            let units = progress["units"].as_str().unwrap_or_default();
            let message = short(progress["message"].as_str().unwrap_or_default(), BESIDE);
            parts.push(format!("{bar} {current}{of} {units} {message}").trim().to_owned());
        }
        for (unit, (allowed, left)) in &self.budget {
            parts.push(format!("{unit} {} {left} of {allowed} left", bar(*left, *allowed, GAUGE)));
        }
        // A line wider than the terminal could not be erased.
        short(&parts.join("  "), BELOW)
    }
}

/// Renders a bar that is filled in proportion of `part` to `whole`.
fn bar(part: f64, whole: f64, letters: usize) -> String {
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let steps = (0..letters).map(|step| f64::from(u32::try_from(step).unwrap_or(u32::MAX)) + 0.5);
    let width = f64::from(u32::try_from(letters).unwrap_or(u32::MAX));
    let full = steps.filter(|step| *step <= share * width).count();
    format!("[{}{}]", "█".repeat(full), "·".repeat(letters - full))
}

/// Returns the beginning of a text, on one line.
fn short(text: &str, letters: usize) -> String {
    let mut line: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if let Some((at, _)) = line.char_indices().nth(letters) {
        line.truncate(at);
        line.push('…');
    }
    line
}

/// Renders an envelope in one line.
fn line(envelope: &Value) -> String {
    let payload = &envelope["payload"];
    let number = envelope["event_seq"].as_u64().unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let said = match envelope["type"].as_str().unwrap_or_default() {
        "job.result" if payload["result_id"].is_string() => {
            let summary = payload["summary"].as_str().unwrap_or("streamed");
            format!(
                "success   {} bytes, {summary}; read them with `entente job result`",
                payload["result_size"]
            )
        }
        "job.result" => format!("success   {}", payload["result"]),
        "job.error" => format!(
            "{:<9} {}: {}",
            text(&payload["final_status"]),
            text(&payload["code"]),
            text(&payload["message"])
        ),
        _ => event(payload["kind"].as_str().unwrap_or("-"), &payload["body"], text),
    };
    format!("{number:>5}  {}", short(&said, SHORT))
}

fn event(kind: &str, body: &Value, text: impl Fn(&Value) -> String) -> String {
    let said = match kind {
        "log" => format!("{}: {}", text(&body["level"]), text(&body["message"])),
        "thought" => text(&body["text"]),
        "status" => format!("{} {}", text(&body["phase"]), body["message"].as_str().unwrap_or_default()),
        "metric" => format!(
            "{} {} {}",
            text(&body["name"]),
            text(&body["value"]),
            body["unit"].as_str().unwrap_or_default()
        ),
        "progress" => {
            let of = body["total"].as_f64().map(|total| format!("/{total}")).unwrap_or_default();
            let beside = ["units", "message"].map(|name| body[name].as_str().unwrap_or_default());
            format!("{}{of} {}", body["current"], beside.join(" "))
        }
        // The data belongs to the result, and need not be text.
        "result_chunk" => {
            format!("{}, {} letters", body["chunk_seq"], body["data"].as_str().map_or(0, str::len))
        }
        _ => body.to_string(),
    };
    format!("{kind:<12} {}", said.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bars_are_as_full_as_they_should_be() {
        assert_eq!(bar(0.0, 10.0, 4), "[····]");
        assert_eq!(bar(5.0, 10.0, 4), "[██··]");
        assert_eq!(bar(11.0, 10.0, 4), "[████]");
        assert_eq!(bar(-1.0, 0.0, 4), "[····]");
    }

    #[test]
    fn what_a_job_says_cannot_move_the_cursor() {
        let said = json!({ "type": "job.event", "event_seq": 3,
            "payload": { "kind": "log", "body": { "level": "info", "message": "a\u{1b}[2Jb\nc" } } });
        assert_eq!(line(&said), "    3  log          info: a [2Jb c");
        assert_eq!(short("abcdef", 3), "abc…");
    }

    #[test]
    fn the_line_below_shows_how_far_it_is_and_what_is_left() {
        let mut screen = Screen::new(true, &json!({ "USD": 2.0 }));
        screen.note("progress", &json!({ "current": 47, "total": 94, "units": "files", "message": "half" }));
        assert!(
            screen.note("metric", &json!({ "name": "cost.budget.remaining", "value": 0.5, "unit": "USD" }))
        );
        assert_eq!(
            screen.below(),
            "[████████████············] 47/94 files half  USD [███·······] 0.5 of 2 left"
        );
    }
}
