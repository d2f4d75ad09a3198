//! Intents: the search, and one intent with its channels, tasks, jobs, questions and line of time. A person changes its status here.

use actix_web::http::StatusCode;
use actix_web::web;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::IntentId;
use entente_domain::openintent::intents::{Intent, IntentStatus};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::overview::{self, IntentSearch, IntentSummary};
use entente_kernel::{Caller, Outcome, not_found};
use entente_moments::{self as moments, MomentFilter};
use entente_openintent::channels::{self, ChannelFilter};
use entente_openintent::intents;
use entente_openintent::tasks::{self, TaskFilter};
use serde::Deserialize;

use super::{
    Action, Button, Field, Item, Link, Listing, Record, STEP, Section, channel_status, entry_item, from_time,
    given, query, question_item, unless_refused, until_time, wrong,
};
use crate::ApiState;
use crate::web::guard::{Form, PageError, PageResult, Visitor, concluded};
use crate::web::shell::{Place, Shell};
use crate::web::words::When;
use crate::web::{page, see};

/// Channels, tasks, jobs and questions shown of an intent.
const PARTS: u32 = 100;

pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/intents", web::get().to(list))
        .route("/intents/{id}", web::get().to(show))
        .route("/intents/{id}/status", web::post().to(change));
}

/// The conditions of a search, as the form has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    title: String,
    status: String,
    created_by: String,
    from: String,
    until: String,
    before: String,
}

impl Asked {
    fn search(&self) -> Result<IntentSearch, Refusal> {
        let status = given(&self.status)
            .map(|text| IntentStatus::parse(&text).ok_or_else(|| wrong("That is no status of an intent.")));
        let before = given(&self.before)
            .map(|text| text.parse::<IntentId>().map_err(|_no_id| wrong("`before` is the id of an intent.")));
        Ok(IntentSearch {
            status: status.transpose()?,
            created_by: given(&self.created_by),
            title: given(&self.title),
            from: from_time(&self.from)?,
            until: until_time(&self.until)?,
            before: before.transpose()?,
            limit: STEP,
        })
    }

    /// Returns the path of the page after an intent.
    fn next(&self, last: IntentId) -> String {
        let last = last.to_string();
        let pairs: [(&str, &str); 6] = [
            ("title", &self.title),
            ("status", &self.status),
            ("created_by", &self.created_by),
            ("from", &self.from),
            ("until", &self.until),
            ("before", &last),
        ];
        query("/intents", &pairs)
    }

    fn fields(&self) -> Vec<Field> {
        vec![
            Field::text("title", "Words of the title", &self.title),
            Field::choice(
                "status",
                "Status",
                &self.status,
                IntentStatus::ALL.map(IntentStatus::as_str).into(),
            ),
            Field::text("created_by", "Creator", &self.created_by),
            Field::date("from", "Created from", &self.from),
            Field::date("until", "Created until", &self.until),
        ]
    }
}

async fn list(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let mut shown = Listing {
        shell: Shell::of(&visitor, "Intents", Place::Dashboard),
        title: "Intents",
        about: if caller.has(Scope::Admin) { "Everybody's" } else { "Those that you may read" }.to_owned(),
        path: "/intents",
        fields: asked.fields(),
        fault: None,
        items: Vec::new(),
        empty: "No such intents.",
        next: None,
    };
    let search = match asked.search() {
        Ok(search) => search,
        Err(refusal) => {
            shown.fault = Some(refusal.message);
            return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &shown));
        }
    };
    let found = overview::find_intents(ctx, caller, &search).await?;
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count == STEP);
    shown.next = found.last().filter(|_| is_full).map(|last| asked.next(last.id));
    shown.items = found.iter().map(|one| item(one, ctx.now())).collect();
    Ok(page(StatusCode::OK, &shown))
}

fn item(one: &IntentSummary, now: Timestamp) -> Item {
    let waits =
        if one.waiting > 0 { format!(" · requests that wait: {}", one.waiting) } else { String::new() };
    Item {
        head: Some(Link::to(one.title.clone(), format!("/intents/{}", one.id))),
        pill: Some(one.status.clone()),
        about: format!("by {}{waits}", one.created_by),
        at: Some(When::new(one.last_at, now)),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct Part {
    before: Option<i64>,
}

fn intent_id(text: &str) -> Result<IntentId, PageError> {
    text.parse().map_err(|_no_id| Refusal::not_found("intent").into())
}

async fn show(
    api: web::Data<ApiState>,
    visitor: Visitor,
    path: web::Path<String>,
    part: web::Query<Part>,
) -> PageResult {
    let record = load(&api, &visitor, intent_id(&path)?, part.before, None).await?;
    Ok(page(StatusCode::OK, &record))
}

async fn load(
    api: &ApiState,
    visitor: &Visitor,
    id: IntentId,
    before: Option<i64>,
    fault: Option<String>,
) -> Outcome<Record> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let summary = overview::intent(ctx, caller, id).await?.ok_or_else(|| not_found("intent"))?;
    let now = ctx.now();
    // An admin who is no member sees the intent as on the dashboard: without its contents.
    let whole = unless_refused(intents::get(&ctx.openintent, caller, id).await.map(Some))?;
    let entries = overview::timeline(ctx, caller, id, before).await?;
    let earlier = entries.last().map(|last| format!("/intents/{id}?before={}", last.seq));
    let is_full = entries.len() >= overview::ENTRIES_SHOWN;
    let mut line = Section::new(
        "line",
        "What happened",
        "Nothing has happened.",
        entries.iter().map(|entry| entry_item(entry, now)).collect(),
    );
    line.next = earlier.filter(|_| is_full).map(|path| Link::to("Earlier", path));
    let mut sections = parts(api, caller, id).await?;
    sections.push(line);
    Ok(Record {
        shell: Shell::of(visitor, summary.title.clone(), Place::Dashboard)
            .at(before.map_or_else(|| format!("/intents/{id}"), |seq| format!("/intents/{id}?before={seq}")))
            .live("/dashboard/stream"),
        up: Link::to("Intents", "/intents"),
        title: summary.title.clone(),
        status: Some(summary.status.clone()),
        about: format!("by {}", summary.created_by),
        fault,
        text: whole.as_ref().map(|intent| intent.description.clone()).filter(|text| !text.is_empty()),
        facts: facts(&summary, whole.as_ref()),
        actions: whole
            .as_ref()
            .filter(|_| caller.has(Scope::IntentsWrite))
            .and_then(action)
            .into_iter()
            .collect(),
        sections,
    })
}

fn facts(summary: &IntentSummary, whole: Option<&Intent>) -> Vec<(&'static str, Vec<Link>)> {
    let id = summary.id;
    let mut facts = vec![
        ("Intent", vec![Link::plain(id.to_string())]),
        ("Created by", vec![Link::agent(&summary.created_by)]),
    ];
    if let Some(intent) = whole {
        facts.push(("Version", vec![Link::plain(intent.version.to_string())]));
        facts.extend(intent.parent_id.map(|parent| ("Part of", vec![Link::intent(parent)])));
        if !intent.depends_on.is_empty() {
            facts.push(("Waits for", intent.depends_on.iter().copied().map(Link::intent).collect()));
        }
    }
    facts.push(("See it", vec![Link::to("on the dashboard", format!("/dashboard?intent={id}"))]));
    facts
}

/// Returns the buttons that change the status.
fn action(intent: &Intent) -> Option<Action> {
    let offered = [
        (IntentStatus::Active, "Go on with it"),
        (IntentStatus::Blocked, "Hold it up"),
        (IntentStatus::Completed, "It is done"),
        (IntentStatus::Abandoned, "Give it up"),
    ];
    let buttons: Vec<Button> = offered
        .into_iter()
        .filter(|(status, _)| intent.status.may_become(*status))
        .map(|(status, label)| Button {
            name: "status",
            value: status.as_str().to_owned(),
            label: label.to_owned(),
        })
        .collect();
    (!buttons.is_empty()).then(|| Action {
        path: format!("/intents/{}/status", intent.id),
        fields: vec![("version", intent.version.to_string())],
        asks: Some(("reason", "Why")),
        buttons,
    })
}

async fn parts(api: &ApiState, caller: &Caller, id: IntentId) -> Outcome<Vec<Section>> {
    let (ctx, now) = (&api.ctx, api.ctx.now());
    let filter = ChannelFilter { limit: PARTS, ..ChannelFilter::default() };
    let open = unless_refused(channels::list(&ctx.openintent, caller, id, &filter).await)?;
    let open = open.iter().map(|channel| Item {
        head: Some(Link::to(channel.name.clone(), format!("/channels/{}", channel.id))),
        pill: Some(channel_status(channel.status).to_owned()),
        about: format!("by {} · messages: {}", channel.created_by, channel.message_count),
        at: Some(When::new(channel.last_message_at.unwrap_or(channel.created_at), now)),
        ..Item::default()
    });
    let filter = TaskFilter { limit: PARTS, ..TaskFilter::default() };
    let tasks = unless_refused(tasks::list(&ctx.openintent, caller, id, &filter).await)?;
    let tasks = tasks.iter().map(|view| Item {
        head: Some(Link::plain(view.task.name.clone())),
        pill: Some(view.task.status.as_str().to_owned()),
        about: view.task.id.to_string(),
        links: view.task.assigned_agent.as_deref().map(Link::agent).into_iter().collect(),
        ..Item::default()
    });
    let jobs = unless_refused(overview::jobs_of_intent(ctx, caller, id, PARTS).await)?;
    let jobs = jobs.into_iter().map(|job| Item {
        head: Some(Link::to(job.agent, format!("/jobs/{}", job.id))),
        pill: Some(job.status.replace('_', " ")),
        about: format!("by {}", job.principal),
        at: Some(When::new(job.last_at, now)),
        ..Item::default()
    });
    let filter = MomentFilter { intent: Some(id), limit: PARTS, ..MomentFilter::default() };
    let (asked, _) = unless_refused(moments::list(&ctx.moments, caller, &filter).await)?;
    Ok(vec![
        Section::new("channels", "Channels", "It has no channels that you may see.", open.collect()),
        Section::new("tasks", "Tasks", "It has no tasks that you may see.", tasks.collect()),
        Section::new("jobs", "Jobs", "It has no jobs that you may see.", jobs.collect()),
        Section::new(
            "questions",
            "Questions to people",
            "None that you may see.",
            asked.iter().map(|one| question_item(one, now)).collect(),
        ),
    ])
}

#[derive(Deserialize)]
struct ChangeForm {
    status: String,
    version: i64,
    reason: Option<String>,
}

async fn change(api: web::Data<ApiState>, path: web::Path<String>, form: Form<ChangeForm>) -> PageResult {
    let id = intent_id(&path)?;
    let ChangeForm { status, version, reason } = form.fields;
    let (ctx, caller) = (&api.ctx.openintent, &form.visitor.caller);
    let reason = reason.and_then(|text| given(&text));
    let done = match IntentStatus::parse(&status) {
        Some(status) => intents::set_status(ctx, caller, id, version, status, reason.as_deref()).await,
        None => Err(Refusal::new(Code::InvalidParameter, "That is no status of an intent.").into()),
    };
    let refused = match concluded(done)? {
        Ok(_intent) => return Ok(see(&format!("/intents/{id}")).finish()),
        Err(refused) => refused,
    };
    // A refused action reveals nothing: reading the intent requires access to it.
    Ok(page(refused.status, &load(&api, &form.visitor, id, None, Some(refused.message)).await?))
}
