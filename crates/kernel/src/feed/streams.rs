//! Streams: following one intent, one channel, the intents of a portfolio, the records that concern one agent, or
//! everything that a caller may see.
//!
//! A stream holds only a position. It reads from the feed's ring while it keeps up, and otherwise from the database
//! (`reader.rs`). `streams/visibility.rs` decides about visibility, and `streams/filling.rs` adds unpublished records
//! to the rings. An agent's stream begins with the agent's open assignments (`streams/opening.rs`).
//! `streams/missing.rs` counts messages that were evicted or expired before the stream reached them.

mod filling;
mod members;
mod missing;
mod opening;
mod visibility;

use std::collections::VecDeque;
use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, PortfolioId};
use entente_domain::log::event_types::EventTypes;
use entente_domain::log::events::Kind;
use entente_domain::refusal::{Code, Refusal};

use crate::access::{assignments, membership, portfolios};
use crate::audit::floors;
use crate::channels::access::visit;
use crate::feed::reader;
use crate::feed::reader::LogPage;
use crate::feed::{Follower, FollowerRead, Frame, Opening, ResumeToken};
use crate::log::{GlobalPosition, Record, order};
use crate::messages::rows;
use crate::{AppError, Caller, Ctx, Grant, Outcome};

pub use filling::{fill, poll_topics, poll_wakeups, tail};
pub(crate) use members::know_members;
pub use missing::MissedMessages;
pub use visibility::View;
pub use visibility::VisibilityFilter;

use missing::{Missing, Since};

/// Subject of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One intent.
    Intent(IntentId),
    /// One channel.
    Channel(ChannelId),
    /// The intents of a portfolio, and the changes of the portfolio itself.
    Portfolio(PortfolioId),
    /// Records that concern the acting agent: its assignments, its assigned intents, and messages to it.
    Agent,
    /// Everything that the caller may see.
    All,
}

/// Reason for the end of a stream.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The caller may no longer see the subject, or its key ended.
    #[error("access ended")]
    AccessEnded,
    /// The subject was deleted.
    #[error("what was followed is gone")]
    Gone,
    /// The database could not be read; the client resumes at its last position.
    #[error(transparent)]
    Failed(#[from] AppError),
}

#[derive(Debug)]
enum Source {
    IntentLog { follower: Follower<i64>, intent: IntentId },
    Global { follower: Follower<GlobalPosition> },
}

/// A subscription with its position.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    visibility: VisibilityFilter,
    /// The records to return, of those that the caller sees.
    types: EventTypes,
    /// The beginning of an agent's stream, until all of it was shown.
    opening: Option<Opening>,
    /// Records that were read and not returned since the last ones that were.
    passed: u64,
    /// Frames that were read and not yet checked for visibility.
    unseen: VecDeque<Arc<Frame>>,
    /// Frames to return, stored here because the caller may drop the waiting future at any moment.
    seen: Vec<Arc<Frame>>,
    /// Position at which both lists were last empty.
    settled: Option<ResumeToken>,
    /// Position up to which retention has deleted events that the stream would have returned.
    deleted: Option<ResumeToken>,
    /// Messages that the reader has missed.
    missing: Missing,
    /// Whether everything that there was had been read when the last frames came.
    is_current: bool,
}

impl Stream {
    /// Opens a stream of the records of these types, from a resume token or from the present.
    ///
    /// Without a token, an agent's stream begins with the agent's open assignments.
    ///
    /// # Errors
    /// Fails if the subject does not exist or is not readable, or if the resume token belongs to another kind of
    /// stream.
    pub async fn open(
        ctx: &Ctx,
        caller: Caller,
        subject: Subject,
        types: EventTypes,
        resume: Option<ResumeToken>,
    ) -> Outcome<Self> {
        let (intent, channel) = match subject {
            Subject::Intent(intent) => (intent, None),
            Subject::Channel(channel) => (crate::channels::access::home(ctx, channel).await?, Some(channel)),
            Subject::Portfolio(portfolio) => {
                caller.require(Scope::IntentsRead)?;
                let mut conn = ctx.pool.acquire().await?;
                portfolios::require(&mut conn, &caller, portfolio).await?;
                drop(conn);
                let visibility = VisibilityFilter::lasting(caller, View::Portfolio(portfolio), &ctx.metrics);
                return Self::everywhere(ctx, visibility, types, resume).await;
            }
            Subject::Agent | Subject::All => {
                caller.require(Scope::ChannelsRead)?;
                let view = if subject == Subject::Agent { View::Agent } else { View::All };
                let visibility = VisibilityFilter::lasting(caller, view, &ctx.metrics);
                return Self::everywhere(ctx, visibility, types, resume).await;
            }
        };
        let mut conn = ctx.pool.acquire().await?;
        let now = ctx.now();
        let mut visited = None;
        if let Some(channel) = channel {
            caller.require(Scope::ChannelsRead)?;
            let visit = visit(&mut conn, &caller, channel, now).await?;
            visit.viewer(&caller, ctx.settings.strict).require(&visit.channel)?;
            visited = Some(visit);
        } else {
            caller.require(Scope::IntentsRead)?;
            membership::require(&mut conn, &caller.agent, intent, Level::Read, now).await?;
        }
        let end =
            crate::log::writer::tails(&mut conn, &[intent]).await?.first().map_or(0, |(_, tail)| tail.seq);
        let position = match (resume, channel) {
            (None, _) => end,
            (Some(ResumeToken::Message(number)), Some(channel)) => {
                rows::place_after(&mut conn, channel, number).await?.unwrap_or(end).min(end)
            }
            // A token beyond the end comes from a database that was restored: continue at the end.
            (Some(ResumeToken::IntentLog(seq)), _) => seq.clamp(0, end),
            (Some(_), _) => return Err(foreign_mark()),
        };
        let missing = match &visited {
            Some(visit) if types.has_messages() => {
                let viewer = visit.viewer(&caller, ctx.settings.strict);
                let since = Since {
                    position,
                    number: resume.and_then(ResumeToken::number),
                    resumes: resume.is_some(),
                };
                Missing::on(&mut conn, &visit.channel, &viewer, since, now).await?
            }
            _ => Missing::default(),
        };
        let deleted = match resume {
            Some(_) => floors::numbers(&mut conn, intent).await?,
            None => None,
        };
        let deleted = deleted.filter(|(seq, _)| position < *seq).map(|(seq, _)| ResumeToken::IntentLog(seq));
        let follower = ctx.feed.follow(intent, position);
        let view = channel.map_or(View::Intent, View::Channel);
        let visibility = VisibilityFilter::lasting(caller, view, &ctx.metrics);
        Ok(Self { deleted, missing, ..Self::new(Source::IntentLog { follower, intent }, visibility, types) })
    }

    /// Opens a stream over all intents.
    async fn everywhere(
        ctx: &Ctx,
        visibility: VisibilityFilter,
        types: EventTypes,
        resume: Option<ResumeToken>,
    ) -> Outcome<Self> {
        let of_agent = visibility.view == View::Agent;
        let tells = of_agent && types.has_event(Kind::AgentAssigned.wire(), false);
        let now = reader::now(ctx).await?;
        let resumes = resume.is_some();
        let (place, opening) = match resume {
            None => (now, tells.then(|| Opening::at(now))),
            Some(ResumeToken::Global(place)) => (place, None),
            Some(ResumeToken::Former(former)) => {
                (order::translate(&mut *ctx.pool.acquire().await?, former).await?, None)
            }
            Some(ResumeToken::Opening(opening)) if of_agent => (opening.start, Some(opening)),
            Some(ResumeToken::FormerOpening { start, shown }) if of_agent => {
                let mut conn = ctx.pool.acquire().await?;
                let start = order::translate(&mut conn, start).await?;
                let shown = assignments::translate(&mut conn, &visibility.caller.agent, shown).await?;
                (start, Some(Opening { start, shown }))
            }
            Some(
                ResumeToken::IntentLog(_)
                | ResumeToken::Message(_)
                | ResumeToken::Opening(_)
                | ResumeToken::FormerOpening { .. },
            ) => return Err(foreign_mark()),
        };
        let deleted = if resumes { floors::highest(&mut *ctx.pool.acquire().await?).await? } else { None };
        let deleted = deleted.map(|(global, seq)| GlobalPosition { global, seq });
        let deleted = deleted.filter(|deleted| place < *deleted).map(ResumeToken::Global);
        // A token beyond the end comes from a database that was restored: continue at the end.
        let source = Source::Global { follower: ctx.feed.follow_global(place.min(now)) };
        Ok(Self { opening, deleted, ..Self::new(source, visibility, types) })
    }

    fn new(source: Source, visibility: VisibilityFilter, types: EventTypes) -> Self {
        Self {
            source,
            visibility,
            types,
            opening: None,
            passed: 0,
            unseen: VecDeque::new(),
            seen: Vec::new(),
            settled: None,
            deleted: None,
            missing: Missing::default(),
            is_current: false,
        }
    }

    /// Returns the current position of the follower.
    #[must_use]
    pub fn mark(&self) -> ResumeToken {
        match (&self.source, self.opening) {
            (Source::IntentLog { follower, .. }, _) => ResumeToken::IntentLog(follower.position),
            (Source::Global { .. }, Some(opening)) => ResumeToken::Opening(opening),
            (Source::Global { follower }, None) => ResumeToken::Global(follower.position),
        }
    }

    /// Returns a resume token: everything before it was returned, is of no type that the stream shows, or was
    /// invisible to the caller.
    #[must_use]
    pub fn place(&self) -> ResumeToken {
        let settled = self.unseen.is_empty() && self.seen.is_empty();
        self.settled.filter(|_| !settled).unwrap_or_else(|| self.mark())
    }

    /// Returns the position up to which events after the resume token may be missing, because retention has deleted them;
    /// `None` if none is.
    #[must_use]
    pub fn deleted(&self) -> Option<ResumeToken> {
        self.deleted
    }

    /// Returns the messages that the reader has missed before the stream was opened, if it resumes on one channel.
    #[must_use]
    pub fn missed_before(&self) -> Option<MissedMessages> {
        self.missing.before()
    }

    /// Takes the messages that the reader has missed since, evicted or expired before the stream reached them.
    pub fn take_missed(&mut self) -> Vec<MissedMessages> {
        self.missing.take()
    }

    /// Returns whether at least so many records were read since the last ones that were returned; begins to count
    /// anew if they were.
    pub fn has_passed(&mut self, many: u64) -> bool {
        let passed = self.passed >= many;
        if passed {
            self.passed = 0;
        }
        passed
    }

    /// Waits for visible frames and returns them; dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream has ended, see [`End`].
    pub async fn next(&mut self, ctx: &Ctx) -> Result<Vec<Arc<Frame>>, End> {
        loop {
            self.check_key(ctx)?;
            while let Some(frame) = self.unseen.front().cloned() {
                let shown = self.shows(ctx, &frame.record).await?;
                let has_expired = !shown && self.has_expired(ctx, &frame.record).await?;
                self.unseen.pop_front();
                self.count(&frame.record, shown, has_expired);
                if shown {
                    self.seen.push(frame);
                } else {
                    self.passed += 1;
                }
            }
            if !self.seen.is_empty() {
                ctx.metrics.frames.inc_by(self.seen.len() as u64);
                self.passed = 0;
                return Ok(std::mem::take(&mut self.seen));
            }
            self.settled = Some(self.mark());
            match self.opening {
                Some(opening) => Box::pin(self.open_with(ctx, opening)).await?,
                None => self.advance(ctx).await?,
            }
        }
    }

    /// Checks that the caller's key is still in force.
    ///
    /// # Errors
    /// [`End::AccessEnded`].
    pub fn check_key(&self, ctx: &Ctx) -> Result<(), End> {
        if self.visibility.caller.grant.in_force(ctx.now()) { Ok(()) } else { Err(End::AccessEnded) }
    }

    /// Takes the next frames from the ring or from the database, or waits for some.
    async fn advance(&mut self, ctx: &Ctx) -> Result<(), End> {
        let grant = &self.visibility.caller.grant;
        match &mut self.source {
            Source::IntentLog { follower, intent, .. } => match follower.read() {
                FollowerRead::Frames(frames) => {
                    measure(ctx, &frames, &mut self.is_current);
                    self.unseen.extend(frames);
                }
                FollowerRead::UpToDate => {
                    self.is_current = true;
                    news(follower, grant).await;
                }
                FollowerRead::Behind => {
                    let stretch = Box::pin(reader::line(ctx, *intent, follower.position)).await?;
                    let LogPage { records, reached } = stretch;
                    caught_up(ctx, &records);
                    self.unseen.extend(
                        records
                            .into_iter()
                            .map(|(seq, r)| Arc::new(Frame::new(ResumeToken::IntentLog(seq), r))),
                    );
                    follower.position = reached;
                    follower.topic().start_at(reached);
                }
            },
            Source::Global { follower } => match follower.read() {
                FollowerRead::Frames(frames) => {
                    measure(ctx, &frames, &mut self.is_current);
                    self.unseen.extend(frames);
                }
                FollowerRead::UpToDate => {
                    self.is_current = true;
                    news(follower, grant).await;
                }
                FollowerRead::Behind => {
                    let stretch = Box::pin(reader::global(ctx, follower.position)).await?;
                    let LogPage { records, reached } = stretch;
                    caught_up(ctx, &records);
                    let stuck = records.is_empty() && reached == follower.position;
                    self.unseen.extend(
                        records.into_iter().map(|(at, r)| Arc::new(Frame::new(ResumeToken::Global(at), r))),
                    );
                    follower.position = reached;
                    if stuck {
                        news(follower, grant).await;
                    }
                }
            },
        }
        Ok(())
    }

    async fn shows(&mut self, ctx: &Ctx, record: &Record) -> Result<bool, End> {
        Ok(self.visibility.shows(ctx, record).await? && self.has(record))
    }

    /// Returns whether a record is a message that the stream would have shown before it expired.
    async fn has_expired(&mut self, ctx: &Ctx, record: &Record) -> Result<bool, End> {
        let Record::Message { message, channel } = record else { return Ok(false) };
        let Some(before) = missing::before_expiry(message, ctx.now()) else { return Ok(false) };
        let before = Record::Message { message: Arc::new(before), channel: Arc::clone(channel) };
        Box::pin(self.shows(ctx, &before)).await
    }

    /// Counts the messages that the reader has missed before a record.
    fn count(&mut self, record: &Record, is_shown: bool, has_expired: bool) {
        let Record::Message { message, channel } = record else { return };
        let follows = match self.visibility.view {
            View::Channel(followed) => channel.id == followed,
            View::Intent | View::Portfolio(_) | View::Agent | View::All => true,
        };
        if follows && self.types.has_messages() {
            self.missing.pass(message, channel, is_shown, has_expired);
        }
    }

    /// Returns whether a record is of a type that the stream shows.
    fn has(&self, record: &Record) -> bool {
        match record {
            Record::Message { .. } => self.types.has_messages(),
            Record::Receipt { receipt, .. } => self.types.has_receipts(receipt.kind),
            Record::Event { event, .. } => self.types.has_event(&event.event_type, event.posted),
        }
    }
}

/// Waits for a record after the follower's position, or for the end of the key, which only its grant reports.
pub async fn news<P: Copy + Ord>(follower: &mut Follower<P>, grant: &Grant) {
    tokio::select! {
        () = follower.changed() => {}
        () = grant.voided() => {}
    }
}

/// Measures how late frames come to a stream that waited for them: one that resumes reads older ones.
fn measure(ctx: &Ctx, frames: &[Arc<Frame>], is_current: &mut bool) {
    if let Some(first) = frames.first().filter(|_| std::mem::take(is_current)) {
        let late = ctx.now() - first.record.at();
        ctx.metrics.stream_lag.observe(late.as_seconds_f64().max(0.0));
    }
}

fn caught_up<P>(ctx: &Ctx, records: &[(P, Record)]) {
    if !records.is_empty() {
        ctx.metrics.catch_ups.inc();
    }
}

fn foreign_mark() -> AppError {
    AppError::Refused(Refusal::new(
        Code::InvalidParameter,
        "`Last-Event-ID` is of another kind of stream. Send the id of the last frame of this stream, or none.",
    ))
}
