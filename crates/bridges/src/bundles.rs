//! Bundles: an intent with everything that its reader may read of it, from all protocols, as one sealed file
//! (`entente_domain::bundles` has the format). Only reads.
//!
//! A bundle is read in one snapshot and in steps, each of which is a page of one kind; so neither the server nor the
//! reader holds all of it, and writers wait for nobody. Whoever writes it out ends it after [`TIME`], or when its reader pauses for long
//! (`crates/api/src/bridges/bundles.rs`): that reader has a file without its seal, which no verifier takes for a bundle.

mod bodies;
pub mod imports;
pub mod records;
mod rows;
mod turns;

use std::collections::VecDeque;
use std::time::Duration;

use entente_arcp::jobs;
use entente_arcp::jobs::IntentJob;
use entente_domain::access::Level;
use entente_domain::bundles::{DeletedPart, FORMAT, Header, Section, Writer};
use entente_domain::canonical;
use entente_domain::clock::{Timestamp, rfc3339};
use entente_domain::cursors::Since;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, CostId, IntentId, JobId, MomentId};
use entente_domain::log::events::Sealed;
use entente_domain::openintent::channels::Channel;
use entente_domain::refusal::Code;
use entente_kernel::access::membership::{self, Membership};
use entente_kernel::audit::exports::{self, LogFrame};
use entente_kernel::channels::access::{ChannelAccess, of_member};
use entente_kernel::channels::rows as channel_rows;
use entente_kernel::log::writer::tails;
use entente_kernel::messages::{MessageFilter, rows as message_rows};
use entente_kernel::pages::Measure;
use entente_kernel::spending::budgets;
use entente_kernel::{AppError, Caller, Outcome, Tx, charges, intents, not_found};
use entente_openintent::costs;
use serde::Serialize;
use tokio::sync::Semaphore;
use uuid::Uuid;

use self::records::BundleFile;
use self::turns::BundleTurn;
use crate::Ctx;

/// Maximum number of bundles that a server writes at once; further ones wait.
static TURNS: Semaphore = Semaphore::const_new(4);

/// Time within which a bundle has to be read: its snapshot keeps PostgreSQL from tidying up.
pub const TIME: Duration = Duration::from_mins(10);

/// Rows of a step.
const ROWS: u32 = 500;

/// Bytes of a step; the last row may exceed it.
const BYTES: i64 = 1024 * 1024;

/// Jobs of a step, each with an input of up to 768 KiB; decisions of one.
const LARGE_ROWS: i64 = 8;

/// Deleted events whose hashes stand on one line.
const HASHES: usize = 1_000;

/// The lines of a bundle, from where they come.
pub enum Lines {
    /// This server writes it now.
    Written(Box<Bundle>),
    /// Another server wrote it, and this one imported it.
    Imported(Box<BundleFile>),
}

impl Lines {
    /// Returns the next lines; `None` after the last.
    ///
    /// # Errors
    /// As [`Bundle::next`], [`BundleFile::next`].
    pub async fn next(&mut self) -> Outcome<Option<String>> {
        match self {
            Self::Written(bundle) => bundle.next().await,
            Self::Imported(file) => file.next().await,
        }
    }
}

/// Begins to export an intent: one of this server, or for an admin the last imported bundle of another server's.
///
/// # Errors
/// As [`begin`].
pub async fn export(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Lines> {
    match begin(ctx, caller, intent_id).await {
        Ok(bundle) => Ok(Lines::Written(Box::new(bundle))),
        Err(AppError::Refused(missing)) if missing.code == Code::NotFound => {
            match records::latest(ctx, caller, intent_id).await? {
                Some(id) => Ok(Lines::Imported(Box::new(records::file(ctx, caller, id).await?))),
                None => Err(missing.into()),
            }
        }
        Err(refused) => Err(refused),
    }
}

/// A bundle that is being written.
pub struct Bundle {
    ctx: Ctx,
    caller: Caller,
    intent_id: IntentId,
    membership: Membership,
    now: Timestamp,
    snapshot: Tx,
    writer: Writer,
    step: Step,
    _turn: BundleTurn,
}

/// Next part to write.
enum Step {
    /// The first line.
    Start(String, Box<LogFrame>),
    /// The remains of deleted events, after so many of them; then the identities.
    Deleted(usize, Box<LogFrame>),
    /// The events after a position of the log; then the checkpoints.
    Events(i64, Box<LogFrame>),
    /// The channels after one.
    Channels(ChannelId),
    /// The messages of a channel after a number, and the channels that follow.
    Messages(Box<ChannelAccess>, u32, VecDeque<Channel>, ChannelId),
    /// The jobs after one.
    Jobs(JobId),
    /// The events of a job after a number, the jobs that follow, and where their next page begins.
    JobEvents(JobId, i64, VecDeque<IntentJob>, Option<JobId>),
    /// The costs after a position.
    Costs(i64),
    /// The charges after one.
    Charges(CostId),
    /// The budgets.
    Budgets,
    /// The decisions after one.
    Decisions(MomentId),
    /// The children after one.
    Children(IntentId),
    /// The seal.
    Seal,
    /// Nothing.
    End,
}

/// Begins the bundle of an intent, with the parts that the caller may read.
///
/// # Errors
/// The intent does not exist or is not readable; the scope `intents:read` is missing.
pub async fn begin(ctx: &Ctx, caller: &Caller, intent_id: IntentId) -> Outcome<Bundle> {
    caller.require(Scope::IntentsRead)?;
    // Who may not read it waits for no turn.
    membership::require(&mut *ctx.pool.acquire().await?, &caller.agent, intent_id, Level::Read, ctx.now())
        .await?;
    let turn = BundleTurn::take(&TURNS, ctx, caller).await?;
    let mut snapshot = ctx.snapshot().await?;
    let now = ctx.now();
    let membership = membership::require(&mut snapshot, &caller.agent, intent_id, Level::Read, now).await?;
    let frame = exports::frame(&mut snapshot, intent_id).await?.ok_or_else(|| not_found("intent"))?;
    let header = header(&frame, caller, now);
    let (writer, first) = Writer::begin(&header)?;
    Ok(Bundle {
        ctx: ctx.clone(),
        caller: caller.clone(),
        intent_id,
        membership,
        now,
        snapshot,
        writer,
        step: Step::Start(first, Box::new(frame)),
        _turn: turn,
    })
}

fn header(frame: &LogFrame, caller: &Caller, now: Timestamp) -> Header {
    let begun = frame.begun.clone().filter(|_| !frame.deleted.is_empty());
    let (event_count, head) = frame.end.as_ref().map_or((0, None), |end| (end.sequence, end.head));
    let closed = |scope, sections: &'static [Section]| {
        let left_out = if caller.has(scope) { &[] } else { sections };
        left_out.iter().map(|section| section.as_str().to_owned())
    };
    Header {
        format: FORMAT.to_owned(),
        exported_at: rfc3339(now),
        exported_by: caller.agent.clone(),
        intent: frame.intent.clone(),
        event_count,
        head: head.as_ref().map(canonical::show),
        deleted: begun.map(|intent| DeletedPart { event_count: frame.deleted.len(), intent }),
        left_out: closed(Scope::ChannelsRead, &[Section::Channel, Section::Message])
            .chain(closed(Scope::JobsRead, &[Section::Job, Section::JobEvent]))
            .chain(closed(Scope::MomentsRead, &[Section::Decision]))
            .collect(),
    }
}

impl Bundle {
    /// Returns the next lines; `None` after the last.
    ///
    /// # Errors
    /// A database error; a stored value is invalid; the time is up, or the key is no longer in force.
    pub async fn next(&mut self) -> Outcome<Option<String>> {
        let mut text = String::new();
        while text.is_empty() {
            if matches!(self.step, Step::End) {
                return Ok(None);
            }
            self.caller.require_key(self.ctx.now())?;
            let step = std::mem::replace(&mut self.step, Step::End);
            self.step = match step {
                Step::Start(first, frame) => {
                    text.push_str(&first);
                    Step::Deleted(0, frame)
                }
                Step::Deleted(after, frame) => self.deleted(&mut text, after, frame)?,
                Step::Events(after, frame) => self.events(&mut text, after, frame).await?,
                Step::Channels(after) => self.channels(&mut text, after).await?,
                Step::Messages(access, number, rest, after) => {
                    self.messages(&mut text, access, number, rest, after).await?
                }
                Step::Jobs(after) => self.jobs(&mut text, after).await?,
                Step::JobEvents(job, seq, rest, next) => {
                    self.job_events(&mut text, job, seq, rest, next).await?
                }
                Step::Costs(after) => self.costs(&mut text, after).await?,
                Step::Charges(after) => self.charges(&mut text, after).await?,
                Step::Budgets => self.budgets(&mut text).await?,
                Step::Decisions(after) => self.decisions(&mut text, after).await?,
                Step::Children(after) => self.children(&mut text, after).await?,
                Step::Seal => {
                    text.push_str(&self.writer.clone().seal(&self.ctx.server_keys.signer)?);
                    Step::End
                }
                Step::End => Step::End,
            };
        }
        Ok(Some(text))
    }

    fn line(&mut self, text: &mut String, section: Section, body: &impl Serialize) -> Outcome<()> {
        text.push_str(&self.writer.line(section, body)?);
        Ok(())
    }

    fn deleted(&mut self, text: &mut String, after: usize, frame: Box<LogFrame>) -> Outcome<Step> {
        let hashes: Vec<_> = frame.deleted.0.iter().skip(after).take(HASHES).map(canonical::show).collect();
        if !hashes.is_empty() {
            self.line(text, Section::Deleted, &serde_json::json!({ "event_hashes": hashes }))?;
            return Ok(Step::Deleted(after + hashes.len(), frame));
        }
        for identity in &frame.identities {
            self.line(text, Section::Identity, identity)?;
        }
        Ok(Step::Events(0, frame))
    }

    async fn events(&mut self, text: &mut String, after: i64, frame: Box<LogFrame>) -> Outcome<Step> {
        let events =
            exports::events_after(&mut self.snapshot, self.intent_id, after, i64::from(ROWS), BYTES).await?;
        for event in &events {
            self.line(text, Section::Event, &Sealed::from(event))?;
        }
        if let Some(last) = events.last() {
            return Ok(Step::Events(last.seq, frame));
        }
        for checkpoint in &frame.checkpoints {
            self.line(text, Section::Checkpoint, checkpoint)?;
        }
        Ok(Step::Channels(Uuid::nil().into()))
    }

    async fn channels(&mut self, text: &mut String, after: ChannelId) -> Outcome<Step> {
        if !self.caller.has(Scope::ChannelsRead) {
            return Ok(Step::Jobs(Uuid::nil().into()));
        }
        let found = channel_rows::after(&mut self.snapshot, self.intent_id, after, i64::from(ROWS)).await?;
        if found.is_empty() {
            return Ok(Step::Jobs(Uuid::nil().into()));
        }
        self.channel(text, found.into(), after)
    }

    /// Writes the first of these channels; its messages follow.
    fn channel(&mut self, text: &mut String, mut rest: VecDeque<Channel>, after: ChannelId) -> Outcome<Step> {
        let Some(channel) = rest.pop_front() else { return Ok(Step::Channels(after)) };
        let id = channel.id;
        let access = of_member(channel, &self.caller.agent, &self.membership, self.now);
        self.line(text, Section::Channel, &bodies::channel(&access.channel))?;
        Ok(Step::Messages(Box::new(access), 0, rest, id))
    }

    async fn messages(
        &mut self,
        text: &mut String,
        access: Box<ChannelAccess>,
        number: u32,
        rest: VecDeque<Channel>,
        after: ChannelId,
    ) -> Outcome<Step> {
        let viewer = access.viewer(&self.caller, self.ctx.settings.strict);
        if viewer.require(&access.channel).is_err() {
            return self.channel(text, rest, after);
        }
        let filter = MessageFilter { since: Some(Since::Number(number)), to: None, limit: ROWS };
        let mut measure = Measure::fixed(BYTES);
        let page =
            message_rows::page(&mut self.snapshot, &access.channel, &viewer, &filter, self.now, &mut measure);
        let page = page.await?;
        for message in &page {
            self.line(text, Section::Message, &bodies::message(message))?;
        }
        match page.last() {
            Some(last) => Ok(Step::Messages(access, last.number, rest, after)),
            None => self.channel(text, rest, after),
        }
    }

    async fn jobs(&mut self, text: &mut String, after: JobId) -> Outcome<Step> {
        if !self.caller.has(Scope::JobsRead) {
            return Ok(Step::Costs(0));
        }
        let arcp = &self.ctx.arcp;
        let page = jobs::of_intent(arcp, &mut self.snapshot, &self.caller, self.intent_id, after, LARGE_ROWS);
        let (found, next) = page.await?;
        self.job(text, found.into(), next)
    }

    /// Writes the first of these jobs; its events follow.
    fn job(
        &mut self,
        text: &mut String,
        mut rest: VecDeque<IntentJob>,
        next: Option<JobId>,
    ) -> Outcome<Step> {
        let Some(job) = rest.pop_front() else { return Ok(next.map_or(Step::Costs(0), Step::Jobs)) };
        self.line(text, Section::Job, &bodies::job(&job)?)?;
        Ok(Step::JobEvents(job.job.id, 0, rest, next))
    }

    async fn job_events(
        &mut self,
        text: &mut String,
        job: JobId,
        seq: i64,
        rest: VecDeque<IntentJob>,
        next: Option<JobId>,
    ) -> Outcome<Step> {
        let events = jobs::log::after(&mut self.snapshot, job, seq, i64::from(ROWS), BYTES).await?;
        for event in &events {
            self.line(text, Section::JobEvent, &bodies::job_event(event))?;
        }
        match events.last() {
            Some(last) => Ok(Step::JobEvents(job, last.job_seq, rest, next)),
            None => self.job(text, rest, next),
        }
    }

    async fn costs(&mut self, text: &mut String, after: i64) -> Outcome<Step> {
        let found = costs::after(&mut self.snapshot, self.intent_id, after, i64::from(ROWS)).await?;
        for (_, cost) in &found {
            self.line(text, Section::Cost, cost)?;
        }
        Ok(found.last().map_or(Step::Charges(Uuid::nil().into()), |(seq, _)| Step::Costs(*seq)))
    }

    async fn charges(&mut self, text: &mut String, after: CostId) -> Outcome<Step> {
        let own = (!self.caller.has(Scope::Admin)).then(|| self.caller.principal());
        let found =
            charges::of_intent(&mut self.snapshot, self.intent_id, own, after, i64::from(ROWS)).await?;
        for charged in &found {
            self.line(text, Section::Charge, charged)?;
        }
        Ok(found.last().map_or(Step::Budgets, |last| Step::Charges(last.id)))
    }

    async fn budgets(&mut self, text: &mut String) -> Outcome<Step> {
        let found = budgets::of_intent(&mut self.snapshot, &self.ctx, &self.caller, self.intent_id).await?;
        for usage in &found {
            self.line(text, Section::Budget, &bodies::budget(usage))?;
        }
        Ok(Step::Decisions(Uuid::nil().into()))
    }

    async fn decisions(&mut self, text: &mut String, after: MomentId) -> Outcome<Step> {
        let children = Step::Children(Uuid::nil().into());
        if !self.caller.has(Scope::MomentsRead) {
            return Ok(children);
        }
        let page = entente_moments::of_intent(
            &mut self.snapshot,
            &self.caller,
            self.intent_id,
            after,
            LARGE_ROWS,
            self.now,
        );
        let (found, next) = page.await?;
        let signer = self.ctx.server_keys.signer.clone();
        for view in &found {
            self.line(text, Section::Decision, &bodies::decision(&view.moment, &signer))?;
        }
        Ok(next.map_or(children, Step::Decisions))
    }

    async fn children(&mut self, text: &mut String, after: IntentId) -> Outcome<Step> {
        let ids = intents::below(&mut self.snapshot, self.intent_id, after, i64::from(ROWS)).await?;
        let asked: Vec<(IntentId, &str)> = ids.iter().map(|id| (*id, self.caller.agent.as_str())).collect();
        let members = membership::find_all(&mut self.snapshot, &asked, self.now).await?;
        let readable = members.into_iter().filter(|(_, member)| member.access.reaches(Level::Read));
        let readable: Vec<IntentId> = readable.map(|((id, _), _)| id).collect();
        let ends = tails(&mut self.snapshot, &readable).await?;
        let mut children = intents::load_all(&mut self.snapshot, &readable).await?;
        children.sort_unstable_by_key(|intent| intent.id);
        for intent in children {
            let end = ends.iter().find(|(of, _)| *of == intent.id).map(|(_, tail)| tail);
            self.line(text, Section::Child, &bodies::child(&intent, end))?;
        }
        Ok(ids.last().map_or(Step::Seal, |last| Step::Children(*last)))
    }
}
