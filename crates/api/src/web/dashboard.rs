//! The dashboard: current activity, waits between agents, costs and faults. `kernel/src/overview.rs` reads the data with the
//! visitor's permissions.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, web};
use askama::Template;
use entente_bridges::Ctx;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{IntentId, JobId};
use entente_domain::moments::rates::Rate;
use entente_domain::openintent::agents::{Agent, AgentStatus};
use entente_domain::openintent::waits::{self, WaitKind};
use entente_kernel::overview::{Counts, Entry, IntentSummary, Receiver, Spend, Wait, Work};
use entente_kernel::{Caller, Outcome, overview};
use entente_moments as moments;
use entente_moments::Rated;
use entente_openintent::agents;
use serde::Deserialize;

use super::figures::{self, Strip, Waits, lane_name};
use super::guard::{PageResult, Visitor};
use super::records::agent_path;
use super::shell::{Place, Shell};
use super::words::{When, count, long, percent};
use super::{inboxes, page};
use crate::ApiState;

/// Maximum number of agents shown.
const AGENTS: u32 = 200;
/// Number of timeline entries that are also listed as text.
const TOLD: usize = 14;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/dashboard", web::get().to(show));
}

#[derive(Template)]
#[template(path = "dashboard.html")]
struct Dashboard {
    shell: Shell,
    everything: bool,
    tiles: Vec<Tile>,
    circles: Vec<String>,
    intents: Vec<IntentRow>,
    chosen: Option<Chosen>,
    /// Whether the requested intent does not exist or is not visible to the visitor.
    missing: bool,
    web: Waits,
    waits: Vec<WaitRow>,
    jobs: Vec<JobRow>,
    spend: Vec<SpendRow>,
    agents: Vec<AgentRow>,
    receivers: Vec<ReceiverRow>,
    askers: Vec<AskerRow>,
}

/// A key figure.
struct Tile {
    number: i64,
    what: &'static str,
    alarming: bool,
}

struct IntentRow {
    id: IntentId,
    title: String,
    status: String,
    owner: String,
    last: When,
    waiting: String,
    chosen: bool,
}

struct Chosen {
    id: IntentId,
    title: String,
    strip: Strip,
    told: Vec<ToldRow>,
}

struct ToldRow {
    at: When,
    lane: &'static str,
    who: String,
    what: String,
    about: String,
}

struct WaitRow {
    waiting: String,
    awaited: String,
    /// The channel of the awaited answer; of any other wait, its kind and reference.
    about: String,
    since: String,
    until: Option<When>,
}

struct JobRow {
    id: String,
    agent: String,
    principal: String,
    status: String,
    age: When,
    /// Percentage, and description.
    progress: Option<(u32, String)>,
    note: Option<String>,
    ends: Option<When>,
    gauges: Vec<GaugeRow>,
}

struct GaugeRow {
    percent: u32,
    text: String,
    low: bool,
}

struct SpendRow {
    agent: String,
    text: String,
    percent: u32,
}

struct AgentRow {
    id: String,
    page: String,
    /// Path of the agent's inbox, if the visitor may look into it.
    inbox: Option<String>,
    role: Option<String>,
    status: &'static str,
    beat: Option<When>,
    load: i64,
}

struct ReceiverRow {
    /// Path of its page, if it is the visitor's own.
    page: Option<String>,
    host: String,
    agent: String,
    state: String,
    good: bool,
    counts: String,
    error: Option<String>,
}

/// Quality rates of an agent's questions.
struct AskerRow {
    agent: String,
    class: Option<String>,
    asked: String,
    rates: Vec<RateRow>,
}

struct RateRow {
    text: String,
    flagged: bool,
}

#[derive(Deserialize)]
struct Choice {
    intent: Option<String>,
}

async fn show(
    request: HttpRequest,
    api: web::Data<ApiState>,
    visitor: Visitor,
    choice: web::Query<Choice>,
) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let intents = overview::intents(ctx, caller).await?;
    let waits = overview::waits(ctx, caller).await?;
    let (mut works, spend) = overview::works(ctx, caller).await?;
    let open = asking(ctx, caller, &mut works).await?;
    let askers = moments::rates(&ctx.moments, caller, None).await?;
    let receivers = overview::receivers(ctx, caller).await?;
    let filter = agents::AgentFilter { limit: AGENTS, ..agents::AgentFilter::default() };
    let agents = agents::list(&ctx.openintent, caller, &filter).await?;
    let chosen = chosen(ctx, &visitor, &intents, choice.intent.as_deref()).await?;
    let counts = overview::counts(ctx, caller).await?;
    let health = overview::health(ctx, caller, &agents, AGENTS).await?;
    let others = entente_bridges::waits::list(ctx, caller).await?;
    let circles: Vec<Vec<String>> = others.deadlocks.into_iter().map(|one| one.agents).collect();
    // The requests are listed with all those that nobody waits for in a call.
    let others: Vec<waits::Wait> =
        others.waits.into_iter().filter(|wait| wait.kind != WaitKind::Request).collect();
    let pairs = waits.iter().filter_map(|wait| Some((wait.waiting.as_str(), wait.awaited.as_deref()?)));
    let pairs = pairs.chain(others.iter().filter_map(|wait| Some((wait.from.as_str(), wait.to.as_deref()?))));
    let live = format!("/dashboard/stream?{}", request.query_string());
    let dashboard = Dashboard {
        everything: caller.has(Scope::Admin),
        shell: Shell::of(&visitor, "Dashboard", Place::Dashboard).live(live),
        tiles: tiles(open, counts, health),
        missing: choice.intent.is_some() && chosen.is_none(),
        askers: askers.iter().map(asker_row).collect(),
        web: figures::waits(pairs, &circles),
        circles: circles.iter().map(|circle| waits::told(circle)).collect(),
        intents: intents.iter().map(|one| intent_row(one, chosen.as_ref(), now)).collect(),
        waits: waits
            .iter()
            .map(|wait| wait_row(wait, now))
            .chain(others.iter().map(|wait| other_row(wait, now)))
            .collect(),
        jobs: works.iter().map(|work| job_row(work, now)).collect(),
        spend: spend_rows(&spend),
        agents: agents
            .iter()
            .filter(|one| one.status != AgentStatus::Deregistered)
            .map(|one| agent_row(one, caller, now))
            .collect(),
        receivers: receivers.iter().map(|one| receiver_row(one, now)).collect(),
        chosen,
    };
    Ok(page(StatusCode::OK, &dashboard))
}

/// Marks the jobs that wait for a person, and returns the number of open questions.
async fn asking(ctx: &Ctx, caller: &Caller, works: &mut [Work]) -> Outcome<i64> {
    let mut works: Vec<&mut Work> = works.iter_mut().filter(|work| work.ended_at.is_none()).collect();
    let jobs: Vec<JobId> = works.iter().map(|work| work.id).collect();
    let (open, waits) = moments::waiting(&ctx.moments, caller, &jobs).await?;
    for work in works.iter_mut().filter(|work| waits.contains(&work.id)) {
        "awaiting_decision".clone_into(&mut work.status);
    }
    Ok(open)
}

/// Returns the intent whose timeline is shown: exactly the requested one, or by default the one with the latest activity.
async fn chosen(
    ctx: &Ctx,
    visitor: &Visitor,
    intents: &[IntentSummary],
    wanted: Option<&str>,
) -> Result<Option<Chosen>, super::guard::PageError> {
    let intent = match wanted.map(str::parse) {
        None => intents.first().cloned(),
        Some(Ok(id)) => overview::intent(ctx, &visitor.caller, id).await?,
        Some(Err(_no_id)) => None,
    };
    let Some(intent) = intent else { return Ok(None) };
    let entries = overview::timeline(ctx, &visitor.caller, intent.id, None).await?;
    let now = ctx.now();
    Ok(Some(Chosen {
        id: intent.id,
        title: intent.title,
        strip: figures::strip(&entries, now),
        told: entries.into_iter().take(TOLD).map(|entry| told_row(entry, now)).collect(),
    }))
}

fn told_row(entry: Entry, now: Timestamp) -> ToldRow {
    ToldRow {
        at: When::new(entry.at, now),
        lane: lane_name(entry.lane),
        who: entry.who,
        what: entry.what.replace(['.', '_'], " "),
        about: entry.about,
    }
}

fn tiles(decisions: i64, counts: Counts, [healthy, silent]: [i64; 2]) -> Vec<Tile> {
    let tile = |number, what| Tile { number, what, alarming: false };
    vec![
        tile(decisions, if decisions == 1 { "open decision" } else { "open decisions" }),
        tile(counts.intents, "open intents"),
        tile(counts.waits, "waiting requests"),
        tile(counts.jobs, "jobs at work"),
        tile(healthy, "healthy agents"),
        Tile { alarming: silent > 0, ..tile(silent, "silent agents") },
        Tile { alarming: counts.receivers > 0, ..tile(counts.receivers, "failing receivers") },
    ]
}

fn intent_row(one: &IntentSummary, chosen: Option<&Chosen>, now: Timestamp) -> IntentRow {
    IntentRow {
        id: one.id,
        title: one.title.clone(),
        status: one.status.clone(),
        owner: one.created_by.clone(),
        last: When::new(one.last_at, now),
        waiting: match usize::try_from(one.waiting) {
            Ok(0) | Err(_) => String::new(),
            Ok(n) => format!("{} open", count(n, "request")),
        },
        chosen: chosen.is_some_and(|chosen| chosen.id == one.id),
    }
}

fn wait_row(wait: &Wait, now: Timestamp) -> WaitRow {
    WaitRow {
        waiting: wait.waiting.clone(),
        awaited: wait.awaited.clone().unwrap_or_else(|| "anybody".to_owned()),
        about: format!("in {}", wait.channel),
        since: long((now - wait.since).num_seconds().max(0)),
        until: wait.until.map(|until| When::new(until, now)),
    }
}

/// Returns the row of a wait that is for no answer.
fn other_row(wait: &waits::Wait, now: Timestamp) -> WaitRow {
    let (kind, reference) = (wait.kind.as_str(), &wait.reference);
    WaitRow {
        waiting: wait.from.clone(),
        awaited: wait.to.clone().unwrap_or_else(|| "anybody".to_owned()),
        about: format!("{kind} {reference}"),
        since: long((now - wait.since).num_seconds().max(0)),
        until: None,
    }
}

fn job_row(work: &Work, now: Timestamp) -> JobRow {
    let progress = work.progress.map(|(current, total)| match total {
        Some(total) => (percent(current, total), format!("{current} of {total}")),
        None => (0, format!("{current}")),
    });
    let gauges = work.gauges.iter().map(|gauge| {
        let number = |amount: entente_domain::amounts::Amount| amount.to_string().parse().unwrap_or(0.0);
        let left = percent(number(gauge.left), number(gauge.allowed));
        GaugeRow {
            percent: left,
            text: format!("{} of {} {} left", gauge.left, gauge.allowed, gauge.currency),
            low: left < 20,
        }
    });
    JobRow {
        id: work.id.to_string(),
        agent: work.agent.clone(),
        principal: work.principal.clone(),
        status: work.status.clone(),
        age: When::new(work.ended_at.unwrap_or(work.created_at), now),
        progress,
        note: work.note.clone(),
        ends: work.expires_at.filter(|_| work.ended_at.is_none()).map(|end| When::new(end, now)),
        gauges: gauges.collect(),
    }
}

/// Returns the rows of spending; the bars of one currency share a scale, since amounts in two cannot be compared.
fn spend_rows(spend: &[Spend]) -> Vec<SpendRow> {
    let number = |one: &Spend| one.amount.to_string().parse().unwrap_or(0.0);
    let most = |currency: &str| {
        spend.iter().filter(|one| one.currency == currency).map(number).fold(0.0_f64, f64::max)
    };
    let rows = spend.iter().map(|one| SpendRow {
        agent: one.agent.clone(),
        text: format!("{} {}", one.amount, one.currency),
        percent: percent(number(one), most(&one.currency)),
    });
    rows.take(20).collect()
}

fn asker_row(one: &Rated) -> AskerRow {
    let rate = |what: &str, rate: Rate| RateRow {
        text: format!("{what} {} of {}", rate.count, rate.of),
        flagged: rate.flagged,
    };
    let rates = &one.rates;
    AskerRow {
        agent: one.agent_id.clone(),
        class: one.decision_class.clone(),
        asked: count(rates.asked, "question"),
        // The number of refusals is always shown, the other rates only if they are not zero.
        rates: std::iter::once(rate("refused", rates.refused))
            .chain((rates.hatches_closed.count > 0).then(|| rate("hatches closed", rates.hatches_closed)))
            .chain(
                (rates.calibration_notes.count > 0)
                    .then(|| rate("corrected itself", rates.calibration_notes)),
            )
            .collect(),
    }
}

fn agent_row(agent: &Agent, caller: &Caller, now: Timestamp) -> AgentRow {
    let may_look = caller.has(Scope::AgentsRead)
        && (caller.has(Scope::Admin)
            || agent.principal_id == caller.principal()
            || caller.grant.key.may_act_as(&agent.agent_id));
    AgentRow {
        inbox: may_look.then(|| inboxes::path(&agent.agent_id)),
        page: agent_path(&agent.agent_id),
        id: agent.agent_id.clone(),
        role: agent.role_id.clone(),
        status: agent.status.as_str(),
        beat: agent.last_heartbeat_at.map(|at| When::new(at, now)),
        load: agent.current_load,
    }
}

fn receiver_row(one: &Receiver, now: Timestamp) -> ReceiverRow {
    let [waiting, arrived, failed] = one.counts;
    let state = match (&one.disabled, one.failures, &one.paused_until) {
        (Some(reason), _, _) => format!("switched off ({reason})"),
        (None, 0, _) => "in order".to_owned(),
        (None, n, Some(until)) if *until > now => {
            format!("{n} failures in a row, tried again {}", When::new(*until, now).near)
        }
        (None, n, _) => format!("{n} failures in a row"),
    };
    ReceiverRow {
        page: one.is_own.then(|| format!("/webhooks/{}", one.id)),
        host: one.host.clone(),
        agent: one.agent.clone(),
        state,
        good: one.disabled.is_none() && one.failures == 0,
        counts: format!("{arrived} arrived, {waiting} wait, {failed} failed"),
        error: one.last_error.clone().filter(|_| one.failures > 0 || one.disabled.is_some()),
    }
}
