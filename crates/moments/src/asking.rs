//! The agent's operations: asking a person, or opening a deliberation without a position yet
//! (binding moment §6.1). After a refusal the agent must answer the objection before it asks again; this is
//! judged under the lock of agent and person.

use entente_domain::access::Level;
use entente_domain::arcp::jobs::{Job, JobStatus};
use entente_domain::canonical::Digest;
use entente_domain::clock::Timestamp;
use entente_domain::idempotency::Idempotency;
use entente_domain::identity::keys::Scope;
use entente_domain::identity::principals::PrincipalKind;
use entente_domain::ids::{IntentId, MomentId};
use entente_domain::log::events::Kind;
use entente_domain::moments::{self as domain, Brief, Moment, MomentAsk, MomentState};
use entente_domain::openintent::intents::IntentStatus;
use entente_domain::refusal::{Code, Refusal};
use entente_kernel::access::membership;
use entente_kernel::identity::principals;
use entente_kernel::{AppError, Caller, Outcome, idempotency, not_found};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::repeats::{judged, waiting};
use super::rows::{self, RelatedState, StoredMoment};
use super::{LockSet, MomentTx, MomentView, Remark, due_at, lists, words};
use crate::Ctx;

/// Lint of a question that nearly repeats a refused one.
const NEAR_DUPLICATE: &str = "near_duplicate_after_veto";

/// A warning about a new question that is not a fault of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = MomentWarning)]
pub struct Warning {
    /// Stable code of the warning.
    #[schema(example = "expires_after_lease")]
    pub code: String,
    /// Explanation in plain words.
    pub note: String,
}

/// A new question or deliberation.
#[derive(Debug, Clone)]
pub struct Emitted {
    /// The moment as shown to its agent.
    pub shown: MomentView,
    /// Warnings for its agent.
    pub warnings: Vec<Warning>,
    /// Whether it was asked before under the same idempotency key.
    pub repeated: bool,
}

/// Stored response under an idempotency key; it has no content of the question.
#[derive(Serialize, Deserialize)]
struct Done {
    id: MomentId,
    warnings: Vec<Warning>,
}

/// Parties and circumstances of a new moment.
struct Setting {
    ask: MomentAsk,
    addressee: PrincipalKind,
    second: Option<PrincipalKind>,
    related: RelatedState,
    /// Claim under which the agent works on the job.
    claim: Option<Digest>,
    /// Intent that the agent needs access to.
    membership: Option<IntentId>,
}

/// Asks a person; `ask.agent_id` is replaced by the caller.
///
/// # Errors
/// The question is malformed; the addressee is not a person; the person has refused such a question, and its
/// objection is not answered; the agent does not work on the job or intent; their state is not the expected
/// one.
pub async fn emit(
    ctx: &Ctx,
    caller: &Caller,
    brief: &Value,
    ask: MomentAsk,
    once: Option<&Idempotency>,
) -> Outcome<Emitted> {
    caller.require(Scope::MomentsWrite)?;
    let brief = Brief::emitted(brief)?;
    let mut conn = ctx.pool.acquire().await?;
    if let Some(done) = idempotency::find::<Done>(&mut conn, caller, once).await? {
        return repeated(&mut conn, caller, done, ctx.now()).await;
    }
    let setting = prepare(ctx, &mut conn, caller, ask).await?;
    let mut locks_needed = locks_needed(caller, &setting, once);
    if let Some(before) = superseded(&mut conn, &setting.ask).await? {
        locks_needed.include(&mut conn, &before).await?;
    }
    drop(conn);
    let mut work = MomentTx::begin(ctx, caller.trace, locks_needed).await?;
    if let Some(done) = idempotency::find::<Done>(&mut work.tx, caller, once).await? {
        return repeated(&mut work.tx, caller, done, work.now).await;
    }
    still(&mut work, &setting).await?;
    let (kept, warnings) = Box::pin(place(ctx, &mut work, brief, setting, None)).await?;
    let id = kept.moment.id;
    idempotency::keep(&mut work.tx, caller, once, &Done { id, warnings: warnings.clone() }, work.now).await?;
    Ok(Emitted { shown: work.shown(ctx, caller, kept).await?, warnings, repeated: false })
}

/// Writes a question, under all its locks.
///
/// `until` is its expiry where the asker does not choose it (RFC-0025).
async fn place(
    ctx: &Ctx,
    work: &mut MomentTx,
    brief: Brief,
    setting: Setting,
    until: Option<Timestamp>,
) -> Outcome<(StoredMoment, Vec<Warning>)> {
    // Read again, under the lock of agent and person.
    let before = match setting.ask.supersedes {
        Some(id) => work.current(ctx, id).await?,
        None => None,
    };
    let mut lints = judged(work, &brief, &setting.ask).await?;
    domain::require_new(&brief, &waiting(work, &setting.ask).await?)?;
    let near_duplicate = lints.iter().any(|lint| lint.code == NEAR_DUPLICATE);
    lints.extend(domain::lint(&brief));
    let lints = lints.into_iter().map(Remark::from).collect();
    let Setting { ask, addressee, second, related, .. } = setting;
    let id = MomentId::mint(work.now, &*ctx.chance);
    let mut moment = Moment::ask(ask, brief, addressee, second, id, work.now)?;
    moment.expires_at = until.or(moment.expires_at);
    let warnings = late(&moment, &related);
    let mut kept = StoredMoment::new(moment, lints, near_duplicate, related);
    if let Some(job) = kept.moment.job_id {
        work.jobs.awaits(job, id);
    }
    if let Some(mut before) = before {
        before.moment = before.moment.supersede(&kept.moment, work.now)?;
        let next = json!({ "superseded_by": id });
        work.record(ctx, Kind::MomentSuperseded, &kept.moment.agent_id, &before.moment, &next)?;
        work.save(ctx, &mut before).await?;
    }
    opened(ctx, work, &mut kept).await?;
    Ok((kept, warnings))
}

/// Asks the question that an intent waits for (RFC-0025), within the operation that suspends the intent; a
/// refusal writes nothing.
///
/// # Errors
/// The question is invalid; a person is unknown; the agent may not ask it now.
pub async fn put(
    ctx: &Ctx,
    work: &mut MomentTx,
    ask: MomentAsk,
    brief: &Value,
    until: Option<Timestamp>,
) -> Outcome<MomentId> {
    let brief = Brief::emitted(brief)?;
    let addressee = being(&mut work.tx, "principal_id", &ask.principal_id).await?;
    let second = match &ask.escalate_to {
        Some(second) => Some(being(&mut work.tx, "escalate_to", second).await?),
        None => None,
    };
    superseded(&mut work.tx, &ask).await?;
    let membership = ask.intent_id;
    let setting = Setting { ask, addressee, second, related: of_job(None), claim: None, membership };
    still(work, &setting).await?;
    let (kept, _warnings) = Box::pin(place(ctx, work, brief, setting, until)).await?;
    Ok(kept.moment.id)
}

/// Opens a deliberation instead of a question, with its first word: the agent vetoes itself, at no cost.
///
/// # Errors
/// As [`emit`], except malformed or refused questions.
pub async fn deliberate(
    ctx: &Ctx,
    caller: &Caller,
    ask: MomentAsk,
    text: &str,
    once: Option<&Idempotency>,
) -> Outcome<Emitted> {
    caller.require(Scope::MomentsWrite)?;
    let mut conn = ctx.pool.acquire().await?;
    if let Some(done) = idempotency::find::<Done>(&mut conn, caller, once).await? {
        return repeated(&mut conn, caller, done, ctx.now()).await;
    }
    let setting = prepare(ctx, &mut conn, caller, ask).await?;
    drop(conn);
    let mut work = MomentTx::begin(ctx, caller.trace, locks_needed(caller, &setting, once)).await?;
    if let Some(done) = idempotency::find::<Done>(&mut work.tx, caller, once).await? {
        return repeated(&mut work.tx, caller, done, work.now).await;
    }
    let id = MomentId::mint(work.now, &*ctx.chance);
    let begun = Moment::deliberate(setting.ask.clone(), setting.addressee, id, work.now)?;
    still(&mut work, &setting).await?;
    // The domain rules check the text; as the first word it does not change the moment.
    let (_, kind) = begun.word(domain::Speaker::Agent(&caller.agent), text, work.now)?;
    let mut kept = StoredMoment::new(begun, Vec::new(), false, setting.related);
    opened(ctx, &mut work, &mut kept).await?;
    words::insert(&mut work.tx, id, &caller.agent, kind, text, work.now).await?;
    idempotency::keep(&mut work.tx, caller, once, &Done { id, warnings: Vec::new() }, work.now).await?;
    Ok(Emitted { shown: work.shown(ctx, caller, kept).await?, warnings: Vec::new(), repeated: false })
}

/// Writes a new moment and its events.
async fn opened(ctx: &Ctx, work: &mut MomentTx, kept: &mut StoredMoment) -> Outcome<()> {
    let agent = kept.moment.agent_id.clone();
    let question = kept.moment.state == MomentState::Open;
    let told = json!({ "question": question, "supersedes": kept.moment.supersedes });
    work.record(ctx, Kind::MomentOpened, &agent, &kept.moment, &told)?;
    let hatches = kept.moment.hatches;
    if kept.moment.has_calibration_note {
        ctx.metrics.calibration_notes.inc();
    }
    if question && !(hatches.free_text && hatches.dialogue) {
        let told = json!({ "hatches": hatches, "justification": kept.moment.hatch_justification });
        work.record(ctx, Kind::MomentHatchSuppressed, &agent, &kept.moment, &told)?;
    }
    rows::insert(&mut work.tx, kept, due_at(&kept.moment, &ctx.state.settings)).await?;
    work.touch(&kept.moment);
    work.tell(&kept.moment, None).await
}

/// Loads the parties and circumstances without locks; the mutable ones are checked again later.
async fn prepare(
    ctx: &Ctx,
    conn: &mut PgConnection,
    caller: &Caller,
    mut ask: MomentAsk,
) -> Outcome<Setting> {
    ask.agent_id.clone_from(&caller.agent);
    let addressee = being(conn, "principal_id", &ask.principal_id).await?;
    let second = match &ask.escalate_to {
        Some(second) => Some(being(conn, "escalate_to", second).await?),
        None => None,
    };
    let job = match ask.job_id {
        Some(id) => Some(ctx.state.jobs.worked_on(conn, caller, id).await?),
        None => None,
    };
    let named = ask.intent_id;
    let works_for = job.as_ref().and_then(|job| job.intent_id);
    if works_for.is_some() && named.is_some() && named != works_for {
        let message = "`intent_id` is not the intent that the job works for. Leave it out.";
        return Err(Refusal::field(Code::Unprocessable, "intent_id", "unknown", message).into());
    }
    // A job may write to its intent's log; other callers need access to the intent.
    let membership = named.filter(|_| works_for.is_none());
    if let Some(intent) = membership {
        membership::require(conn, &caller.agent, intent, Level::Write, ctx.now()).await?;
    }
    ask.intent_id = named.or(works_for);
    let related = of_job(job.as_ref());
    Ok(Setting { ask, addressee, second, related, claim: job.as_ref().and_then(claim), membership })
}

/// Claim under which a job is worked on.
fn claim(job: &Job) -> Option<Digest> {
    job.claim.as_ref().map(|claim| claim.token)
}

fn of_job(job: Option<&Job>) -> RelatedState {
    RelatedState {
        job_status: job.map(|job| job.status.as_str().to_owned()),
        job_ended_at: None,
        job_expires_at: job.and_then(|job| job.expires_at),
        job_deadline: job.and_then(|job| job.deadline),
        intent_status: None,
    }
}

/// Kind of the named principal; a question goes to one person, never to a bus, role or group (§7.4).
async fn being(conn: &mut PgConnection, member: &str, name: &str) -> Outcome<PrincipalKind> {
    let found = principals::find(conn, name).await?;
    let kind = found.map(|principal| principal.kind).ok_or_else(|| {
        let message = format!(
            "`{member}` names nobody who is known here. Name one person: a question goes to one principal, never to \
             several."
        );
        Refusal::field(Code::Unprocessable, member, "unknown", message)
    })?;
    Ok(kind)
}

/// The moment to be superseded.
///
/// # Errors
/// `supersedes` names no moment of the agent.
pub async fn superseded(conn: &mut PgConnection, ask: &MomentAsk) -> Outcome<Option<StoredMoment>> {
    let Some(id) = ask.supersedes else { return Ok(None) };
    let found = rows::load(conn, id).await?;
    // Another agent's moment counts as missing.
    let found = found.filter(|kept| kept.moment.agent_id == ask.agent_id);
    found.map(Some).ok_or_else(|| {
        let message = "`supersedes` names no moment of yours.";
        Refusal::field(Code::Unprocessable, "supersedes", "unknown", message).into()
    })
}

/// Lock set of a new moment, without the one that it supersedes.
fn locks_needed(caller: &Caller, setting: &Setting, once: Option<&Idempotency>) -> LockSet {
    let ask = &setting.ask;
    let mut locks_needed = LockSet::default();
    locks_needed.about(ask.intent_id, ask.job_id);
    locks_needed.between(&ask.agent_id, [Some(&ask.principal_id), ask.escalate_to.as_deref()]);
    locks_needed.once(caller, once);
    locks_needed
}

/// Requires, under the locks: room for one more question, access to the unresolved intent, an unchanged claim
/// on the running job, and the state named in `valid_while`.
async fn still(work: &mut MomentTx, setting: &Setting) -> Outcome<()> {
    lists::require_room(&mut work.tx, &setting.ask, work.now).await?;
    if let Some(intent) = setting.membership {
        membership::require(&mut work.tx, &setting.ask.agent_id, intent, Level::Write, work.now).await?;
    }
    let wanted = &setting.ask.valid_while;
    let mut intent_status: Option<IntentStatus> = None;
    if let Some(id) = setting.ask.intent_id {
        let intent =
            entente_kernel::intents::load(&mut work.tx, id).await?.ok_or_else(|| not_found("intent"))?;
        if intent.status.is_terminal() {
            let message = "The intent is completed or abandoned; nothing is decided for it any more.";
            return Err(Refusal::new(Code::IntentResolved, message).into());
        }
        intent_status = Some(intent.status);
    }
    let job = setting.ask.job_id.and_then(|id| work.jobs.job(id));
    let job_status = job.map(|job| job.status);
    let unlike = |wanted: &Option<String>, found: Option<&str>| {
        wanted.as_deref().is_some_and(|wanted| found != Some(wanted))
    };
    let other_job = unlike(&wanted.job_status, job_status.map(JobStatus::as_str));
    let other_intent = unlike(&wanted.intent_status, intent_status.map(IntentStatus::as_str));
    if other_job || other_intent {
        let message = "The job or the intent is not in the state that `valid_while` names, at this moment already. Look at \
                       it again before you ask.";
        return Err(Refusal::new(Code::CircumstancesChanged, message).into());
    }
    let works = job.is_some_and(|job| job.status == JobStatus::Running && claim(job) == setting.claim);
    if setting.ask.job_id.is_some() && !works {
        let message = "You have just stopped working on the job: it has ended, or your claim of it has. Look at it again \
                       before you ask.";
        return Err(Refusal::new(Code::CircumstancesChanged, message).into());
    }
    Ok(())
}

/// Warnings about a lease or run time that ends before the question: nothing renews a job's lease meanwhile
/// (ARCP §9.5).
fn late(moment: &Moment, related: &RelatedState) -> Vec<Warning> {
    let after =
        |end: Option<Timestamp>| end.zip(moment.expires_at).is_some_and(|(end, expires_at)| expires_at > end);
    let warning = |code: &str, note: &str| Warning { code: code.to_owned(), note: note.to_owned() };
    let lease = after(related.job_expires_at).then(|| {
        warning(
            "expires_after_lease",
            "The job's lease ends before the question does; nothing renews it while the person thinks.",
        )
    });
    let runtime = after(related.job_deadline)
        .then(|| warning("expires_after_runtime", "The job is timed out before the question lapses."));
    lease.into_iter().chain(runtime).collect()
}

/// The moment asked before under the same key, in its current state.
async fn repeated(conn: &mut PgConnection, caller: &Caller, done: Done, now: Timestamp) -> Outcome<Emitted> {
    let kept = rows::load(conn, done.id).await?;
    let kept =
        kept.ok_or_else(|| AppError::Inconsistent(format!("{} is kept under a key and gone", done.id)))?;
    let words = words::load(conn, &[done.id]).await?.into_iter().map(|(_, word)| word).collect();
    let shown = MomentView::new(kept, words, caller, now).ok_or_else(|| not_found("moment"))?;
    Ok(Emitted { shown, warnings: done.warnings, repeated: true })
}
