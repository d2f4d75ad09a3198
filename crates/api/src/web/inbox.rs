//! The inbox: the moments that wait for the visitor, and the page of a single question with its full content
//! (binding moment §8). All slots are shown as written; remarks on them are displayed separately. Answering
//! is in `answers.rs`.

use actix_web::http::StatusCode;
use actix_web::web;
use askama::Template;
use entente_bridges::Ctx;
use entente_domain::clock::Timestamp;
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::moments::{Brief, Hatches, Level, MomentState, ResolutionKind, Settled, WordKind};
use entente_domain::refusal::Refusal;
use entente_kernel::{Caller, Outcome};
use entente_moments as moments;
use entente_moments::{MomentFilter, MomentView, Role};

use super::guard::{PageError, PageResult, Visitor};
use super::shell::{Place, Shell};
use super::words::When;
use super::{held, page};
use crate::ApiState;

/// Maximum number of waiting questions listed, most urgent first; others follow as these are decided.
const WAITING: u32 = 100;
/// Number of past questions listed.
const PAST: usize = 12;
/// Page sizes of the scan for past questions: small at first, because most people have few open ones.
const LOOK: [u32; 4] = [36, 100, 100, 100];
/// Seconds before a deadline from which it is highlighted.
const CLOSE: i64 = 3_600;

/// Registers the routes of this file.
pub fn routes(config: &mut web::ServiceConfig) {
    config.route("/inbox", web::get().to(list)).route("/inbox/{id}", web::get().to(show));
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    shell: Shell,
    who: String,
    cards: Vec<Card>,
    /// Tasks that wait for a person's approval.
    held: Vec<held::Task>,
    /// Whether there are more waiting questions than shown.
    more: bool,
    past: Vec<Card>,
}

/// A moment in a list.
struct Card {
    id: MomentId,
    headline: String,
    stem: Option<String>,
    agent: String,
    class: Option<String>,
    state: &'static str,
    asked: When,
    deadline: Option<When>,
    close: bool,
    lease: Option<When>,
    intent: Option<IntentId>,
    answer: Option<String>,
}

/// Returns the heading of a moment: its synopsis as written or, without one, a description.
pub fn headline(shown: &MomentView) -> String {
    let moment = &shown.moment;
    match (&moment.brief, moment.scrubbed_at.is_some(), &shown.malformed) {
        (Some(brief), _, _) => brief.synopsis.clone(),
        (None, _, Some(_)) => "A question that cannot be shown".to_owned(),
        (None, true, None) => "Its contents were taken out".to_owned(),
        (None, false, None) => format!("{} wants to talk before it asks", moment.agent_id),
    }
}

fn card(shown: &MomentView, now: Timestamp) -> Card {
    let moment = &shown.moment;
    let deadline = moment.expires_at.filter(|_| moment.state == MomentState::Open);
    let lease = shown.related.job_expires_at.filter(|_| !moment.state.is_terminal());
    Card {
        id: moment.id,
        headline: headline(shown),
        stem: moment.brief.as_ref().map(|brief| brief.question.stem.clone()),
        agent: moment.agent_id.clone(),
        class: moment.decision_class.clone(),
        state: moment.state.as_str(),
        asked: When::new(moment.created_at, now),
        close: deadline.is_some_and(|end| (end - now).num_seconds() < CLOSE),
        deadline: deadline.map(|end| When::new(end, now)),
        lease: lease.map(|end| When::new(end, now)),
        intent: moment.intent_id,
        answer: moment.resolution.as_ref().map(|one| told(one, moment.brief.as_ref())),
    }
}

/// Describes an answer in a few words; its text is shown only on the moment's own page.
fn told(settled: &Settled, brief: Option<&Brief>) -> String {
    match settled.kind {
        ResolutionKind::Option => {
            let label =
                settled.option_idx.and_then(|idx| Some(brief?.question.options.get(idx)?.label.clone()));
            label.unwrap_or_else(|| format!("option {}", settled.option_idx.unwrap_or(0) + 1))
        }
        ResolutionKind::FreeText => "answered in other words".to_owned(),
        ResolutionKind::Dialogue => "refused as a question".to_owned(),
    }
}

async fn list(api: web::Data<ApiState>, visitor: Visitor) -> PageResult {
    let (ctx, caller) = (&api.ctx, &visitor.caller);
    let now = ctx.now();
    let (waiting, next) = moments::inbox(&ctx.moments, caller, WAITING, None).await?;
    let past = past(ctx, caller).await?;
    let cards: Vec<Card> = waiting.iter().map(|one| card(one, now)).collect();
    let held = held::tasks(ctx, caller).await?;
    let waits = cards.len() + held.len();
    let title = if waits == 0 { "Inbox".to_owned() } else { format!("({waits}) Inbox") };
    let shell = Shell::of(&visitor, title, Place::Inbox).live("/inbox/stream");
    let past = past.iter().map(|one| card(one, now)).collect();
    Ok(page(
        StatusCode::OK,
        &InboxPage { shell, who: caller.agent.clone(), cards, held, more: next.is_some(), past },
    ))
}

/// Returns the latest moments that are over; open ones, of which there may be many, are interspersed.
async fn past(ctx: &Ctx, caller: &Caller) -> Outcome<Vec<MomentView>> {
    let mut filter = MomentFilter { principal: Some(caller.agent.clone()), ..MomentFilter::default() };
    let mut past = Vec::new();
    for limit in LOOK {
        filter.limit = limit;
        let (latest, next) = moments::list(&ctx.moments, caller, &filter).await?;
        past.extend(latest.into_iter().filter(|one| one.moment.state.is_terminal()));
        filter.before = next;
        if past.len() >= PAST || next.is_none() {
            break;
        }
    }
    past.truncate(PAST);
    Ok(past)
}

#[derive(Template)]
#[template(path = "moment.html")]
struct MomentPage {
    shell: Shell,
    card: Card,
    brief: Option<Brief>,
    digest: String,
    /// Refusal of the last action.
    complaint: Option<String>,
    /// Text entered then, for the forms that accept it.
    draft: Draft,
    /// Text entered then that no form accepts any more.
    unsent: Vec<String>,
    open: bool,
    deliberating: bool,
    mine: bool,
    malformed: Option<String>,
    fallback: Option<String>,
    objection_response: Option<String>,
    supersedes: Option<MomentId>,
    superseded_by: Option<MomentId>,
    hatch_justification: Option<String>,
    remarks: Vec<String>,
    words: Vec<WordRow>,
    answered: Option<Answered>,
    ended: Option<When>,
    end_reason: Option<String>,
    job: Option<String>,
}

/// Text that was entered but not accepted.
#[derive(Debug, Default)]
pub struct Draft {
    /// An answer in the person's own words.
    pub answer: String,
    /// An objection to the question.
    pub objection: String,
    /// A request for detail, or a reply.
    pub text: String,
}

impl Draft {
    /// Returns the texts that no form on the page accepts: an open question accepts text through its hatches,
    /// and so does a deliberation as replies (`talk`).
    fn unsent(&self, hatches: Option<Hatches>, talk: bool) -> Vec<String> {
        let texts = [
            (&self.answer, hatches.is_some_and(|hatches| hatches.free_text)),
            (&self.objection, hatches.is_some_and(|hatches| hatches.dialogue)),
            (&self.text, hatches.is_some() || talk),
        ];
        texts
            .into_iter()
            .filter(|(text, taken)| !taken && !text.is_empty())
            .map(|(text, _)| text.clone())
            .collect()
    }
}

struct WordRow {
    author: String,
    what: &'static str,
    text: String,
    at: When,
    theirs: bool,
}

/// The accepted answer.
struct Answered {
    short: String,
    text: Option<String>,
    by: String,
    via: &'static str,
    at: When,
}

async fn show(api: web::Data<ApiState>, visitor: Visitor, path: web::Path<String>) -> PageResult {
    let id = moment_id(&path)?;
    let shown = moments::get(&api.ctx.moments, &visitor.caller, id).await?;
    let now = api.ctx.now();
    Ok(page(StatusCode::OK, &written(&visitor, shown, now, None, Draft::default())))
}

/// Parses the moment id in a path.
pub fn moment_id(text: &str) -> Result<MomentId, PageError> {
    text.parse().map_err(|_no_id| Refusal::not_found("moment").into())
}

/// Returns the page of a moment after a refused action, with the refusal and the text that was entered.
pub fn after(
    visitor: &Visitor,
    shown: MomentView,
    now: Timestamp,
    status: StatusCode,
    complaint: String,
    draft: Draft,
) -> actix_web::HttpResponse {
    page(status, &written(visitor, shown, now, Some(complaint), draft))
}

fn written(
    visitor: &Visitor,
    shown: MomentView,
    now: Timestamp,
    complaint: Option<String>,
    draft: Draft,
) -> MomentPage {
    let card = card(&shown, now);
    let MomentView { moment, lints, words, related, role, malformed, .. } = shown;
    let mine = role == Role::Principal;
    let open = moment.state == MomentState::Open && moment.brief.is_some();
    let deliberating = moment.state == MomentState::Deliberating;
    let hatches = moment.brief.as_ref().filter(|_| open && mine).map(|brief| brief.question.hatches);
    let answered = moment.resolution.as_ref().map(|one| Answered {
        short: told(one, moment.brief.as_ref()),
        text: one.answer.clone().or_else(|| one.objection.clone()),
        by: one.by.clone(),
        via: one.via.as_str(),
        at: When::new(one.at, now),
    });
    let remarks = lints.into_iter().filter(|one| one.level == Level::Warn).map(|one| one.note);
    let path = format!("/inbox/{}", card.id);
    let live = format!("{path}/stream");
    MomentPage {
        shell: Shell::of(visitor, card.headline.clone(), Place::Inbox).at(path).live(live),
        digest: moment.digest.clone().unwrap_or_default(),
        complaint,
        unsent: draft.unsent(hatches, deliberating && mine),
        draft,
        open,
        deliberating,
        mine,
        malformed,
        fallback: moment.fallback_text.clone(),
        objection_response: moment.objection_response.clone(),
        supersedes: moment.supersedes,
        superseded_by: moment.superseded_by,
        hatch_justification: moment.hatch_justification.clone(),
        remarks: remarks.collect(),
        words: words.iter().map(|word| word_row(word, moment.scrubbed_at.is_some(), now)).collect(),
        answered,
        ended: moment.ended_at.map(|at| When::new(at, now)),
        end_reason: moment.end_reason.clone(),
        job: moment.job_id.map(|id| match &related.job_status {
            Some(status) => format!("{id} ({status})"),
            None => id.to_string(),
        }),
        brief: moment.brief,
        card,
    }
}

fn word_row(word: &moments::Word, scrubbed: bool, now: Timestamp) -> WordRow {
    let (what, theirs) = match word.kind {
        WordKind::DetailAsked => ("asks for detail", false),
        WordKind::Detail => ("gives detail", true),
        WordKind::Deliberation => ("deliberates", true),
        WordKind::Reply => ("replies", false),
    };
    WordRow {
        author: word.author.clone(),
        what,
        theirs,
        text: word.text.clone().unwrap_or_else(|| {
            let why = if scrubbed { "(taken out)" } else { "(between the two of them)" };
            why.to_owned()
        }),
        at: When::new(word.said_at, now),
    }
}
