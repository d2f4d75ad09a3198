//! The page of the search: the same results as `GET /search` (`http/src/kernel/search.rs`) gives the visitor, with the words
//! marked and links.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use chrono::TimeDelta;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::log::search::{Query, SourceKind};
use entente_domain::refusal::{Code, Refusal};
use entente_http::kernel::search::{STEP, ask};
use entente_kernel::audit::search::{Found, Hit, Indexed, Source, find};
use entente_kernel::{AppError, Caller, Ctx, Outcome};
use serde::Deserialize;

use super::guard::{PageResult, Visitor};
use super::page;
use super::shell::{Place, Shell};
use super::words::When;
use crate::ApiState;

/// Seconds by which the index of messages and events may be behind before the page says so: a follower takes a moment.
const LOG_BEHIND: i64 = 5;

/// The same for jobs: which of them are indexed is known only some time after they were accepted.
const JOBS_BEHIND: i64 = 300;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/search", web::get().to(show));
}

/// The search, as the form has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    q: String,
    message: String,
    event: String,
    job: String,
    intent_id: String,
    cursor: String,
}

impl Asked {
    /// Returns the kinds that are checked; none for all.
    fn kinds(&self) -> Vec<&'static str> {
        let checked = |kind: &SourceKind| {
            let field = match kind {
                SourceKind::Message => &self.message,
                SourceKind::Event => &self.event,
                SourceKind::Job => &self.job,
            };
            !field.is_empty()
        };
        SourceKind::ALL.into_iter().filter(checked).map(SourceKind::as_str).collect()
    }
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    shell: Shell,
    asked: Asked,
    kinds: Vec<KindBox>,
    /// Why nothing was searched.
    fault: Option<String>,
    results: Option<Results>,
}

/// A kind in the form.
struct KindBox {
    name: &'static str,
    is_checked: bool,
}

struct Results {
    rows: Vec<HitLine>,
    next: Option<String>,
    /// Records that may be missing from the results because they are not searched yet, in words.
    behind: Vec<String>,
}

struct HitLine {
    kind: &'static str,
    what: String,
    who: String,
    at: When,
    excerpt: Vec<Piece>,
    /// Id of the message or the event.
    reference: Option<String>,
    job: Option<JobId>,
    intent: Option<IntentId>,
}

/// A part of an excerpt.
struct Piece {
    text: String,
    is_word: bool,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let asked = asked.into_inner();
    let checked = asked.kinds();
    let kinds = SourceKind::ALL
        .into_iter()
        .map(|kind| KindBox { name: kind.as_str(), is_checked: checked.contains(&kind.as_str()) });
    let mut shown = SearchPage {
        shell: Shell::of(&visitor, "Search", Place::Search),
        kinds: kinds.collect(),
        fault: None,
        results: None,
        asked,
    };
    if shown.asked.q.trim().is_empty() {
        return Ok(page(StatusCode::OK, &shown));
    }
    match results(&api.ctx, &visitor.caller, &shown.asked).await {
        Ok(results) => shown.results = Some(results),
        Err(AppError::Refused(refusal)) if refusal.code != Code::ScopeMissing => {
            shown.fault = Some(refusal.message);
            return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &shown));
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(page(StatusCode::OK, &shown))
}

async fn results(ctx: &Ctx, caller: &Caller, asked: &Asked) -> Outcome<Results> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let intent = given(&asked.intent_id).map(|text| {
        let message = "That is no id of an intent. Nothing was searched.";
        text.parse::<IntentId>().map_err(|_no_id| Refusal::new(Code::InvalidParameter, message))
    });
    let kinds = Some(asked.kinds().join(",")).filter(|kinds| !kinds.is_empty());
    let cursor = given(&asked.cursor);
    let ask = ask(Some(&asked.q), kinds.as_deref(), intent.transpose()?, cursor.as_deref(), STEP)?;
    let Found { hits, next, indexed } = find(ctx, caller, &ask).await?;
    let now = ctx.now();
    Ok(Results {
        rows: hits.into_iter().map(|hit| row(hit, &ask.query, now)).collect(),
        next: next.map(|place| place.cursor()),
        behind: behind(indexed, now),
    })
}

/// Returns, in words, which records may be missing from the results because they are not searched yet.
fn behind(indexed: Indexed, now: Timestamp) -> Vec<String> {
    let late = |what: &str, until: Option<Timestamp>, seconds| match until {
        None => Some(format!("Nothing is known of {what} yet.")),
        Some(until) if now - until > TimeDelta::seconds(seconds) => {
            Some(format!("Newer {what} than {} may be missing.", When::new(until, now).near))
        }
        Some(_) => None,
    };
    let log = late("messages and events", indexed.log_until, LOG_BEHIND);
    log.into_iter().chain(late("jobs", indexed.jobs_until, JOBS_BEHIND)).collect()
}

fn row(hit: Hit, query: &Query, now: Timestamp) -> HitLine {
    let (kind, what, who, reference, job) = match hit.source {
        Source::Message { id, message_type, sender, .. } => {
            (SourceKind::Message, message_type, sender, Some(id.to_string()), None)
        }
        Source::Event { id, event_type, actor } => {
            (SourceKind::Event, event_type, actor, Some(id.to_string()), None)
        }
        Source::Job { id, agent, status } => (SourceKind::Job, status, agent, None, Some(id)),
    };
    let excerpt = hit.excerpt.unwrap_or_default();
    let pieces = query.marked(&excerpt).into_iter();
    HitLine {
        kind: kind.as_str(),
        what,
        who,
        at: When::new(hit.at, now),
        excerpt: pieces.map(|part| Piece { text: part.text.to_owned(), is_word: part.is_word }).collect(),
        reference,
        job,
        intent: hit.intent_id,
    }
}
