//! Lists of records and pages of one record each: the parts that the modules of the nouns have in common.

mod agents;
mod budgets;
mod channels;
mod intents;
mod people;
mod webhooks;

use actix_web::web;
use askama::Template;
use chrono::{Datelike as _, Days, NaiveDate};
use entente_domain::clock::{Timestamp, parse};
use entente_domain::ids::{ChannelId, IntentId, JobId};
use entente_domain::openintent::channels::ChannelStatus;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::overview::Entry;
use entente_kernel::{AppError, Outcome};
use entente_moments::MomentView;

use super::figures::lane_name;
use super::inbox::headline;
use super::shell::Shell;
use super::words::{When, escaped};

/// Things on a page of a list.
const STEP: u32 = 50;
/// Characters shown of a long text.
const SHORT: usize = 600;

/// Registers the routes of this folder.
pub fn routes(config: &mut web::ServiceConfig) {
    intents::routes(config);
    channels::routes(config);
    agents::routes(config);
    people::routes(config);
    budgets::routes(config);
    webhooks::routes(config);
}

/// A text, with the path of the page that it names.
pub struct Link {
    text: String,
    path: Option<String>,
}

impl Link {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), path: None }
    }

    fn to(text: impl Into<String>, path: impl Into<String>) -> Self {
        Self { text: text.into(), path: Some(path.into()) }
    }

    fn agent(name: &str) -> Self {
        Self::to(name, agent_path(name))
    }

    fn intent(id: IntentId) -> Self {
        Self::to(id.to_string(), format!("/intents/{id}"))
    }

    fn channel(id: ChannelId) -> Self {
        Self::to(id.to_string(), format!("/channels/{id}"))
    }

    fn job(id: JobId) -> Self {
        Self::to(id.to_string(), format!("/jobs/{id}"))
    }
}

/// Returns the path of an agent's page.
pub fn agent_path(name: &str) -> String {
    query("/agent", &[("id", name)])
}

/// Returns the path of a principal's page.
pub fn person_path(name: &str) -> String {
    query("/person", &[("id", name)])
}

/// Returns the path of a page with the given parameters; empty ones are left out.
fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// An entry of a list.
#[derive(Default)]
pub struct Item {
    head: Option<Link>,
    pill: Option<String>,
    about: String,
    links: Vec<Link>,
    at: Option<When>,
    /// Longer text, in lines.
    text: Option<String>,
    /// Kind of an entry of a line of time.
    lane: Option<&'static str>,
    action: Option<Action>,
}

/// A part of a record's page.
pub struct Section {
    id: &'static str,
    heading: &'static str,
    empty: &'static str,
    items: Vec<Item>,
    /// Link to further items.
    next: Option<Link>,
}

impl Section {
    fn new(id: &'static str, heading: &'static str, empty: &'static str, items: Vec<Item>) -> Self {
        Self { id, heading, empty, items, next: None }
    }
}

/// A form of buttons.
pub struct Action {
    path: String,
    /// Hidden fields.
    fields: Vec<(&'static str, String)>,
    /// Name and label of a text that is sent along.
    asks: Option<(&'static str, &'static str)>,
    buttons: Vec<Button>,
}

/// A button, which sends a field.
pub struct Button {
    name: &'static str,
    value: String,
    label: String,
}

/// The page of one thing.
#[derive(Template)]
#[template(path = "record.html")]
struct Record {
    shell: Shell,
    /// The list that it is in.
    up: Link,
    title: String,
    status: Option<String>,
    about: String,
    /// Why an action was refused.
    fault: Option<String>,
    text: Option<String>,
    facts: Vec<(&'static str, Vec<Link>)>,
    actions: Vec<Action>,
    sections: Vec<Section>,
}

/// A field of the form that searches a list.
pub struct Field {
    name: &'static str,
    label: &'static str,
    value: String,
    /// Type of the input; `select` for a choice of `options`.
    control: &'static str,
    options: Vec<&'static str>,
}

impl Field {
    fn text(name: &'static str, label: &'static str, value: &str) -> Self {
        Self { name, label, value: value.to_owned(), control: "text", options: Vec::new() }
    }

    fn date(name: &'static str, label: &'static str, value: &str) -> Self {
        Self { control: "date", ..Self::text(name, label, value) }
    }

    fn choice(name: &'static str, label: &'static str, value: &str, options: Vec<&'static str>) -> Self {
        Self { control: "select", options, ..Self::text(name, label, value) }
    }
}

/// A list of things.
#[derive(Template)]
#[template(path = "listing.html")]
struct Listing {
    shell: Shell,
    title: &'static str,
    about: String,
    path: &'static str,
    fields: Vec<Field>,
    /// Why nothing was searched.
    fault: Option<String>,
    items: Vec<Item>,
    empty: &'static str,
    /// Path of the next page.
    next: Option<String>,
}

/// Returns a field of a form without the space around it; an empty one is none.
fn given(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn wrong(what: &str) -> Refusal {
    Refusal::new(Code::InvalidParameter, format!("{what} Nothing was searched."))
}

/// Reads the beginning of a range of time: a day in UTC, or an RFC 3339 time.
pub fn from_time(text: &str) -> Result<Option<Timestamp>, Refusal> {
    given(text).map(|text| time(&text, 0)).transpose()
}

/// Reads the end of a range of time; a day counts wholly.
pub fn until_time(text: &str) -> Result<Option<Timestamp>, Refusal> {
    given(text).map(|text| time(&text, 1)).transpose()
}

fn time(text: &str, days: u64) -> Result<Timestamp, Refusal> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|day| (1..=9999).contains(&day.year()));
    let day =
        day.and_then(|day| Some(day.checked_add_days(Days::new(days))?.and_hms_opt(0, 0, 0)?.and_utc()));
    day.or_else(|| parse(text)).ok_or_else(|| wrong("A day must be written like 2026-11-27."))
}

/// Returns a result, or nothing if it was refused: that part of the page is left out.
fn unless_refused<T: Default>(result: Outcome<T>) -> Outcome<T> {
    match result {
        Err(AppError::Refused(_)) => Ok(T::default()),
        other => other,
    }
}

fn channel_status(status: ChannelStatus) -> &'static str {
    match status {
        ChannelStatus::Open => "open",
        ChannelStatus::Closed => "closed",
    }
}

fn spoken(word: &str) -> String {
    word.replace(['.', '_'], " ")
}

/// Returns the item of an entry of a line of time.
fn entry_item(entry: &Entry, now: Timestamp) -> Item {
    let links = entry.channel_id.map(Link::channel).into_iter().chain(entry.job_id.map(Link::job));
    Item {
        head: Some(Link::agent(&entry.who)),
        about: format!("{} {}", spoken(&entry.what), entry.about),
        links: links.collect(),
        at: Some(When::new(entry.at, now)),
        lane: Some(lane_name(entry.lane)),
        ..Item::default()
    }
}

/// Returns the item of a question to a person.
fn question_item(shown: &MomentView, now: Timestamp) -> Item {
    let moment = &shown.moment;
    Item {
        head: Some(Link::to(headline(shown), format!("/inbox/{}", moment.id))),
        pill: Some(moment.state.as_str().to_owned()),
        about: format!("{} asks {}", moment.agent_id, moment.principal_id),
        at: Some(When::new(moment.created_at, now)),
        ..Item::default()
    }
}
