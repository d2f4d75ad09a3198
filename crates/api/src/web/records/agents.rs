//! Agents: the search, and one agent with its jobs, questions and line of time. A person drains it and lets it work again here.

use actix_web::http::StatusCode;
use actix_web::web;
use entente_arcp::jobs::{self, JobSearch};
use entente_domain::arcp::jobs::Job;
use entente_domain::arcp::versions::AgentRef;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::limits::PAGE;
use entente_domain::openintent::agents::{Agent, AgentStatus};
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::identity::agents::require_keeper;
use entente_kernel::{AppError, Caller, Outcome, overview};
use entente_moments::{self as moments, MomentFilter};
use entente_openintent::agents::{self, AgentFilter};
use serde::Deserialize;

use super::{
    Action, Button, Field, Item, Link, Listing, Record, STEP, Section, agent_path, entry_item, given, query,
    question_item, unless_refused, wrong,
};
use crate::ApiState;
use crate::web::guard::{Form, PageResult, Visitor, concluded};
use crate::web::shell::{Place, Shell};
use crate::web::words::When;
use crate::web::{inboxes, page, see};

/// Jobs and questions shown of an agent.
const PARTS: u32 = 20;
/// Agents searched for a text in their names on one page: further ones follow on the next.
const LOOKED_AT: usize = 2_000;

pub fn routes(config: &mut web::ServiceConfig) {
    config
        .route("/agents", web::get().to(list))
        .route("/agent", web::get().to(show))
        .route("/agent/status", web::post().to(change));
}

/// The conditions of a search, as the form has them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    name: String,
    status: String,
    role: String,
    after: String,
}

/// A page of found agents, and the agent after which the next one begins.
type Found = (Vec<Agent>, Option<String>);

impl Asked {
    async fn found(&self, ctx: &entente_openintent::Ctx, caller: &Caller) -> Outcome<Found> {
        let status = given(&self.status)
            .map(|text| AgentStatus::parse(&text).ok_or_else(|| wrong("That is no status of an agent.")));
        let wanted = given(&self.name);
        // A text in the name is searched here, in a bounded number of agents.
        let limit = if wanted.is_some() { PAGE } else { STEP };
        let mut filter = AgentFilter {
            status: status.transpose()?,
            role_id: given(&self.role),
            after: given(&self.after),
            limit,
        };
        let (mut fitting, mut looked_at) = (Vec::new(), 0);
        loop {
            let found = agents::list(ctx, caller, &filter).await?;
            let is_full = u32::try_from(found.len()).is_ok_and(|count| count == limit);
            looked_at += found.len();
            for agent in found {
                filter.after = Some(agent.agent_id.clone());
                if wanted.as_ref().is_none_or(|text| agent.agent_id.contains(text.as_str())) {
                    fitting.push(agent);
                }
                if fitting.len() >= STEP as usize {
                    return Ok((fitting, filter.after));
                }
            }
            if !is_full || looked_at >= LOOKED_AT {
                return Ok((fitting, filter.after.filter(|_| is_full)));
            }
        }
    }

    fn next(&self, last: &str) -> String {
        let pairs: [(&str, &str); 4] =
            [("name", &self.name), ("status", &self.status), ("role", &self.role), ("after", last)];
        query("/agents", &pairs)
    }

    fn fields(&self) -> Vec<Field> {
        let statuses = AgentStatus::ALL.map(AgentStatus::as_str).into();
        vec![
            Field::text("name", "Part of the name", &self.name),
            Field::choice("status", "Status", &self.status, statuses),
            Field::text("role", "Role", &self.role),
        ]
    }
}

async fn list(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Asked>) -> PageResult {
    let mut shown = Listing {
        shell: Shell::of(&visitor, "Agents", Place::Dashboard),
        title: "Agents",
        about: "The directory, by name".to_owned(),
        path: "/agents",
        fields: asked.fields(),
        fault: None,
        items: Vec::new(),
        empty: "No such agents.",
        next: None,
    };
    match asked.found(&api.ctx.openintent, &visitor.caller).await {
        Ok((found, last)) => {
            shown.items = found.iter().map(|agent| item(agent, api.ctx.now())).collect();
            shown.next = last.map(|last| asked.next(&last));
        }
        Err(AppError::Refused(refusal)) if refusal.code != Code::ScopeMissing => {
            shown.fault = Some(refusal.message);
            return Ok(page(StatusCode::UNPROCESSABLE_ENTITY, &shown));
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(page(StatusCode::OK, &shown))
}

fn item(agent: &Agent, now: Timestamp) -> Item {
    let role = agent.role_id.as_ref().map_or_else(String::new, |role| format!("{role} · "));
    Item {
        head: Some(Link::agent(&agent.agent_id)),
        pill: Some(agent.status.as_str().to_owned()),
        about: format!("{role}of {} · load {}", agent.principal_id, agent.current_load),
        at: Some(When::new(agent.last_heartbeat_at.unwrap_or(agent.registered_at), now)),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, asked: web::Query<Named>) -> PageResult {
    Ok(page(StatusCode::OK, &load(&api, &visitor, &asked.id, None).await?))
}

/// Loads an agent's page; an agent need not be registered to send, so that one without a record has a page too.
async fn load(api: &ApiState, visitor: &Visitor, name: &str, fault: Option<String>) -> Outcome<Record> {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    caller.require(Scope::AgentsRead)?;
    let agent = unless_refused(agents::get(&ctx.openintent, caller, name).await.map(Some))?;
    let keeps = require_keeper(ctx, caller, name).is_ok();
    let mut links = vec![
        Link::to("jobs", query("/jobs", &[("agent", name)])),
        Link::to("intents", query("/intents", &[("created_by", name)])),
    ];
    if keeps || caller.has(Scope::Admin) {
        links.push(Link::to("inbox", inboxes::path(name)));
    }
    let mut facts = agent.as_ref().map_or_else(Vec::new, |agent| facts(agent, now));
    facts.push(("Its", links));
    Ok(Record {
        shell: Shell::of(visitor, name, Place::Dashboard).at(agent_path(name)).live("/dashboard/stream"),
        up: Link::to("Agents", "/agents"),
        title: name.to_owned(),
        status: agent.as_ref().map(|agent| agent.status.as_str().to_owned()),
        about: if agent.is_some() { String::new() } else { "Not registered".to_owned() },
        fault,
        text: None,
        facts,
        actions: agent.as_ref().filter(|_| keeps).and_then(action).into_iter().collect(),
        sections: parts(api, caller, name).await?,
    })
}

fn facts(agent: &Agent, now: Timestamp) -> Vec<(&'static str, Vec<Link>)> {
    let plain = |text: String| vec![Link::plain(text)];
    let owner = query("/person", &[("id", &agent.principal_id)]);
    let mut facts = vec![
        ("Owner", vec![Link::to(agent.principal_id.clone(), owner)]),
        ("Registered", plain(When::new(agent.registered_at, now).near)),
        (
            "Last heartbeat",
            plain(agent.last_heartbeat_at.map_or_else(|| "none".to_owned(), |at| When::new(at, now).near)),
        ),
        ("Load", plain(agent.current_load.to_string())),
    ];
    facts.extend(agent.role_id.clone().map(|role| ("Role", plain(role))));
    facts.extend(agent.name.clone().map(|name| ("Called", plain(name))));
    if !agent.capabilities.is_empty() {
        facts.push(("Can do", plain(agent.capabilities.join(", "))));
    }
    if !agent.tasks_in_progress.is_empty() {
        facts.push(("In progress", plain(agent.tasks_in_progress.join(", "))));
    }
    facts
}

/// Returns the button that drains the agent, or ends that.
fn action(agent: &Agent) -> Option<Action> {
    let (value, label) = match agent.status {
        AgentStatus::Active | AgentStatus::Unhealthy => (AgentStatus::Draining, "Drain it"),
        AgentStatus::Draining => (AgentStatus::Active, "Let it work again"),
        AgentStatus::Registering | AgentStatus::Dead | AgentStatus::Deregistered => return None,
    };
    let button = Button { name: "status", value: value.as_str().to_owned(), label: label.to_owned() };
    Some(Action {
        path: "/agent/status".to_owned(),
        fields: vec![("id", agent.agent_id.clone())],
        asks: None,
        buttons: vec![button],
    })
}

async fn parts(api: &ApiState, caller: &Caller, name: &str) -> Outcome<Vec<Section>> {
    let (ctx, now) = (&api.ctx, api.ctx.now());
    let mut of_jobs = Section::new("jobs", "Jobs", "It has no jobs that you may see.", Vec::new());
    if let Some(agent) = AgentRef::parse(name) {
        let search = JobSearch { agent: Some(agent), limit: PARTS, ..JobSearch::default() };
        let (found, next) = unless_refused(jobs::search(&ctx.arcp, caller, &search).await)?;
        of_jobs.items = found.iter().map(|job| job_item(job, now)).collect();
        of_jobs.next = next.map(|_cursor| Link::to("All jobs", query("/jobs", &[("agent", name)])));
    }
    let filter = MomentFilter { agent: Some(name.to_owned()), limit: PARTS, ..MomentFilter::default() };
    let (asked, _) = unless_refused(moments::list(&ctx.moments, caller, &filter).await)?;
    let history = overview::agent_history(ctx, caller, name).await?;
    Ok(vec![
        of_jobs,
        Section::new(
            "questions",
            "Questions to people",
            "None that you may see.",
            asked.iter().map(|one| question_item(one, now)).collect(),
        ),
        Section::new(
            "line",
            "What happened",
            "Nothing that you may see.",
            history.iter().map(|entry| entry_item(entry, now)).collect(),
        ),
    ])
}

fn job_item(job: &Job, now: Timestamp) -> Item {
    Item {
        head: Some(Link::to(job.agent.clone(), format!("/jobs/{}", job.id))),
        pill: Some(job.status.as_str().to_owned()),
        about: format!("for {}", job.principal),
        links: job.intent_id.map(Link::intent).into_iter().collect(),
        at: Some(When::new(job.ended_at.unwrap_or(job.created_at), now)),
        ..Item::default()
    }
}

#[derive(Deserialize)]
struct ChangeForm {
    id: String,
    status: String,
}

async fn change(api: web::Data<ApiState>, form: Form<ChangeForm>) -> PageResult {
    let ChangeForm { id, status } = form.fields;
    let offered = [AgentStatus::Active, AgentStatus::Draining];
    let done = match offered.into_iter().find(|one| one.as_str() == status) {
        Some(status) => agents::set_status(&api.ctx.openintent, &form.visitor.caller, &id, status).await,
        None => Err(Refusal::new(
            Code::InvalidParameter,
            "An agent is drained or works again. Nothing was changed.",
        )
        .into()),
    };
    match concluded(done)? {
        Ok(_agent) => Ok(see(&agent_path(&id)).finish()),
        Err(refused) => {
            Ok(page(refused.status, &load(&api, &form.visitor, &id, Some(refused.message)).await?))
        }
    }
}
