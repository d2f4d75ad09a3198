//! The page of an agent's inbox: its entries by level, those that ring, quiet hours and readers. Whoever opens it is no
//! reader: nothing moves and nothing counts as taken up (`kernel/src/inbox/looking.rs`). Messages themselves are not
//! shown.

use std::collections::HashMap;

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{ChannelId, IntentId};
use entente_domain::inbox::{Attention, EntryKind, Settings};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::inbox::Reader;
use entente_kernel::inbox::looking::{Look, look};
use entente_kernel::inbox::reading::{Content, ShownEntry};
use serde::Deserialize;

use super::guard::{PageResult, Visitor};
use super::page;
use super::shell::{Place, Shell};
use super::words::{When, count, escaped};
use crate::ApiState;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/inboxes", web::get().to(show));
}

/// Returns the path of an agent's page.
pub fn path(agent: &str) -> String {
    format!("/inboxes?agent={}", escaped(agent))
}

#[derive(Template)]
#[template(path = "inboxes.html")]
struct InboxesPage {
    shell: Shell,
    agent: String,
    shown: Option<InboxView>,
    /// Whether these are not the newest entries.
    is_later: bool,
}

/// An open inbox.
struct InboxView {
    opened: When,
    /// Numbers of its entries, in words.
    counts: String,
    quiet: Option<String>,
    is_quiet: bool,
    /// Other settings of its owner.
    settings: Vec<(&'static str, String)>,
    readers: Vec<ReaderRow>,
    armed: Vec<EntryRow>,
    is_more_armed: bool,
    levels: Vec<LevelRows>,
    older: Option<i64>,
}

struct ReaderRow {
    name: String,
    levels: String,
    place: i64,
    /// Number of entries after its place.
    behind: i64,
    used: When,
}

/// The entries of a level.
struct LevelRows {
    level: &'static str,
    about: &'static str,
    rows: Vec<EntryRow>,
}

struct EntryRow {
    place: i64,
    kind: &'static str,
    what: String,
    at: When,
    /// Sender, unless it is withheld.
    sender: Option<String>,
    channel: Option<String>,
    intent: Option<IntentId>,
    job: Option<String>,
    /// Id of an object without a page.
    reference: Option<String>,
    /// Why nothing else is shown.
    note: Option<&'static str>,
    /// How often it rang again, and when it will.
    rings: Option<String>,
    next: Option<When>,
}

#[derive(Deserialize)]
struct Asked {
    agent: Option<String>,
    before: Option<String>,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let Asked { agent, before } = asked.into_inner();
    let agent = agent.map(|agent| agent.trim().to_owned()).unwrap_or_default();
    let before = before.map(|text| text.parse::<i64>()).transpose().map_err(|_no_number| {
        Refusal::new(Code::InvalidParameter, "`before` is the place of an entry. Begin without it.")
    })?;
    let shown = if agent.is_empty() {
        None
    } else {
        let now = api.ctx.now();
        look(&api.ctx, &visitor.caller, &agent, before).await?.map(|found| shown(&found, now))
    };
    let title = if agent.is_empty() { "Inboxes of agents".to_owned() } else { format!("Inbox of {agent}") };
    let shell = Shell::of(&visitor, title, Place::Dashboard);
    Ok(page(StatusCode::OK, &InboxesPage { shell, agent, shown, is_later: before.is_some() }))
}

fn shown(found: &Look, now: Timestamp) -> InboxView {
    let (inbox, channels) = (&found.inbox, &found.channels);
    let entries = usize::try_from(inbox.entries).unwrap_or(0);
    let evicted =
        if inbox.evicted > 0 { format!("; {} unseen were evicted", inbox.evicted) } else { String::new() };
    let stored = if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") };
    let rows = |level: Attention| {
        let of_level = found.entries.iter().filter(|one| one.attention == level);
        of_level.map(|one| entry_row(one, channels, now)).collect()
    };
    let level = |level: Attention, about| LevelRows { level: level.as_str(), about, rows: rows(level) };
    InboxView {
        opened: When::new(inbox.opened_at, now),
        counts: format!("{stored}, the newest at place {}{evicted}", inbox.last_place),
        quiet: quiet_text(&inbox.settings),
        is_quiet: found.is_quiet,
        settings: setting_rows(&inbox.settings),
        readers: found.readers.iter().map(|one| reader_row(one, inbox.last_place, now)).collect(),
        armed: found.armed.iter().map(|one| entry_row(one, channels, now)).collect(),
        is_more_armed: found.is_more_armed,
        levels: vec![
            level(Attention::Wake, "now"),
            level(Attention::Next, "at the next step"),
            level(Attention::Digest, "collected"),
        ],
        older: found.older,
    }
}

fn quiet_text(settings: &Settings) -> Option<String> {
    settings.quiet_hours.as_ref().map(|hours| {
        let except = match hours.except.as_slice() {
            [] => String::new(),
            names => format!(", except for {}", names.join(", ")),
        };
        format!("{} to {} in {}{except}", hours.from, hours.to, hours.time_zone)
    })
}

fn setting_rows(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(names) = &settings.may_wake {
        let names = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
        rows.push(("May wake", names));
    }
    if !settings.attention.is_empty() {
        let each = settings.attention.iter().map(|(word, level)| format!("{word}: {}", level.as_str()));
        rows.push(("Levels", each.collect::<Vec<_>>().join(", ")));
    }
    if let Some(seconds) = settings.rearm_seconds {
        rows.push(("Rings again after", count(usize::try_from(seconds).unwrap_or(0), "second")));
    }
    rows
}

fn reader_row(reader: &Reader, newest: i64, now: Timestamp) -> ReaderRow {
    let levels: Vec<&str> = reader.levels.iter().map(|level| level.as_str()).collect();
    ReaderRow {
        name: reader.name.clone(),
        levels: levels.join(", "),
        place: reader.place,
        behind: (newest - reader.place).max(0),
        used: When::new(reader.used_at, now),
    }
}

fn entry_row(one: &ShownEntry, channels: &HashMap<ChannelId, String>, now: Timestamp) -> EntryRow {
    let entry = &one.entry;
    let is_withheld = matches!(one.content, Content::Withheld);
    let note = match one.content {
        Content::Withheld => Some("the agent may not read it any more"),
        Content::Gone => Some("deleted since"),
        Content::Message(_) | Content::Reference => None,
    };
    let is_job = entry.kind == EntryKind::Job;
    let reference = Some(entry.reference.clone()).filter(|_| !is_withheld);
    EntryRow {
        place: entry.place,
        kind: entry.kind.as_str(),
        what: entry.what.replace('_', " "),
        at: When::new(entry.at, now),
        sender: entry.sender.clone().filter(|_| !is_withheld),
        channel: entry.channel_id.filter(|_| !is_withheld).and_then(|id| channels.get(&id).cloned()),
        intent: entry.intent_id.filter(|_| !is_withheld),
        job: reference.clone().filter(|_| is_job),
        reference: reference.filter(|_| !is_job),
        note,
        rings: (entry.rings > 0)
            .then(|| format!("rang {} again", count(usize::try_from(entry.rings).unwrap_or(0), "time"))),
        next: entry.rings_at.map(|at| When::new(at, now)),
    }
}
