//! Lines of `entente top`: one section for each question, and nothing that a server's text could do to the terminal.

use entente_domain::clock::{Clock as _, parse};
use entente_domain::moments::text::plain;
use entente_runtime::environment::SystemClock;
use serde_json::Value;

use super::{Answer, Look};
use crate::output::cell;

/// Lines of a section, at most.
const MOST: usize = 12;

/// Returns the lines.
pub(super) fn lines(look: &Look, rates: &[(&'static str, f64)]) -> Vec<String> {
    let mut lines = Vec::new();
    if !rates.is_empty() {
        let shown: Vec<String> = rates.iter().map(|(label, rate)| format!("{rate:.1} {label}")).collect();
        lines.push(shown.join("   "));
    }
    section(&mut lines, "JOBS", &look.counts, |counts| vec![by_status(&counts["by_status"])]);
    section(&mut lines, "RUNNING", &look.running, |found| {
        rows(&found["jobs"], |job| {
            format!("{:<32}  {:<28}  {}", text(&job["job_id"]), text(&job["agent"]), age(&job["created_at"]))
        })
    });
    section(&mut lines, "DECISIONS THAT WAIT", &look.moments, |found| {
        rows(&found["moments"], |one| {
            let stem = &one["binding_moment"]["question"]["stem"];
            format!(
                "{:<20}  asked by {:<20}  {:>8}  {}",
                text(&one["principal_id"]),
                text(&one["agent_id"]),
                age(&one["created_at"]),
                text(stem)
            )
        })
    });
    section(&mut lines, "AGENTS", &look.agents, |agents| {
        let mut lines = vec![agents_by_status(agents)];
        let silent: Vec<Value> = items(agents).filter(|one| one["status"] != "active").cloned().collect();
        lines.extend(rows(&Value::Array(silent), |one| {
            let beat = age(&one["last_heartbeat_at"]);
            format!("{:<32}  {:<10}  last heartbeat {beat}", text(&one["agent_id"]), text(&one["status"]))
        }));
        lines
    });
    section(&mut lines, "DEADLOCKS", &look.waits, |found| {
        rows(&found["deadlocks"], |one| format!("{}  {}", text(&one["agents"]), age(&one["found_at"])))
    });
    section(&mut lines, "BUDGETS", &look.budgets, |found| budgets(&found["budgets"]));
    lines
}

/// Adds a section; one with nothing in it is left out.
fn section(lines: &mut Vec<String>, title: &str, answer: &Answer, show: impl FnOnce(&Value) -> Vec<String>) {
    let shown = match answer {
        Ok(found) => show(found),
        Err(failure) => vec![plain(&failure.to_string())],
    };
    let shown: Vec<String> = shown.into_iter().filter(|line| !line.is_empty()).collect();
    if !shown.is_empty() {
        lines.push(String::new());
        lines.push(title.to_owned());
        lines.extend(shown.into_iter().map(|line| format!("  {line}")));
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the first rows of a list, and how many there are beside them.
fn rows(list: &Value, line: impl Fn(&Value) -> String) -> Vec<String> {
    let mut lines: Vec<String> = items(list).take(MOST).map(line).collect();
    let more = items(list).count().saturating_sub(MOST);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

fn by_status(counts: &Value) -> String {
    let members = counts.as_object().into_iter().flatten();
    let shown: Vec<String> = members.map(|(status, count)| format!("{status} {count}")).collect();
    shown.join("   ")
}

fn agents_by_status(agents: &Value) -> String {
    let mut counts = std::collections::BTreeMap::new();
    items(agents).for_each(|one| *counts.entry(text(&one["status"])).or_insert(0_usize) += 1);
    let shown: Vec<String> = counts.into_iter().map(|(status, count)| format!("{status} {count}")).collect();
    shown.join("   ")
}

/// Shows budgets by their use, the fullest first.
fn budgets(list: &Value) -> Vec<String> {
    let mut found: Vec<(f64, &Value)> = items(list)
        .filter(|one| one["closed_at"].is_null())
        .map(|one| {
            let amount = |member: &str| number(&one["usage"][member]);
            let limit = amount("limit");
            let used = amount("spent") + amount("reserved");
            (if limit > 0.0 { used / limit * 100.0 } else { 100.0 }, one)
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found
        .iter()
        .take(MOST)
        .map(|(used, one)| {
            let name = one["name"].as_str().map_or_else(|| text(&one["scope"]), plain);
            let usage = &one["usage"];
            format!(
                "{used:>5.1} %  {name:<28}  {} of {} {} spent, {} reserved",
                text(&usage["spent"]),
                text(&usage["limit"]),
                text(&one["unit"]),
                text(&usage["reserved"])
            )
        })
        .collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0.0)
}

/// Returns a value as text without control characters.
fn text(value: &Value) -> String {
    plain(&cell(value)).replace('\n', " ")
}

/// Returns how long ago a time was.
fn age(value: &Value) -> String {
    let Some(at) = value.as_str().and_then(parse) else { return "-".to_owned() };
    let seconds = (SystemClock.now() - at).num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
