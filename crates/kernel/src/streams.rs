//! Streams: following one intent, one channel, the intents of a portfolio, one agent's affairs, or everything that a caller
//! may see.
//!
//! A stream holds a position and nothing else. It reads from the feed's ring while it keeps up and from the database
//! (`places.rs`) when it does not. What its caller may see is `streams/sight.rs`. Filling the rings with what nobody
//! published is `streams/filling.rs`.

mod filling;
mod members;
mod sight;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use entente_domain::access::Level;
use entente_domain::ids::{ChannelId, IntentId, PortfolioId};
use entente_domain::keys::Scope;
use entente_domain::refusal::{Code, Refusal};

use super::places::{self, Stretch};
use super::visits::visit;
use super::{AppError, Caller, Ctx, Grant, Outcome, portfolios, seats};
use crate::feed::{Follower, Frame, Glance, Mark, Place, Record};

pub use filling::{fill, look_around, tail};
pub(crate) use members::know_members;
pub(crate) use sight::{Sight, View};

/// What a stream follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One intent.
    Intent(IntentId),
    /// One channel.
    Channel(ChannelId),
    /// The intents of a portfolio, and what happens to the portfolio.
    Portfolio(PortfolioId),
    /// What concerns the acting agent: its assignments, the intents it is assigned to, messages for it.
    Agent,
    /// Everything that the caller may see.
    All,
}

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    /// The caller may no longer see what it follows, or its key ended.
    #[error("access ended")]
    AccessEnded,
    /// What it follows is gone.
    #[error("what was followed is gone")]
    Gone,
    /// The database could not be read; the client resumes where it was.
    #[error(transparent)]
    Failed(#[from] AppError),
}

#[derive(Debug)]
enum Source {
    Line { follower: Follower<i64>, intent: IntentId },
    House { follower: Follower<Place>, past: HashSet<i64> },
}

/// One who follows.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    sight: Sight,
    /// Frames that were read and not yet looked at.
    unseen: VecDeque<Arc<Frame>>,
    /// Frames that are to be handed out. Kept here, because whoever waits for them may give up waiting at any moment.
    seen: Vec<Arc<Frame>>,
    /// Where it was when there were neither.
    settled: Option<Mark>,
}

impl Stream {
    /// Begins to follow, from a mark on or from now on.
    ///
    /// # Errors
    /// What is to be followed is not there or not readable; the mark is of another kind of stream.
    pub async fn open(ctx: &Ctx, caller: Caller, subject: Subject, resume: Option<Mark>) -> Outcome<Self> {
        let (intent, channel) = match subject {
            Subject::Intent(intent) => (intent, None),
            Subject::Channel(channel) => (super::visits::home(ctx, channel).await?, Some(channel)),
            Subject::Portfolio(portfolio) => {
                caller.require(Scope::IntentsRead)?;
                let mut conn = ctx.pool.acquire().await?;
                portfolios::require(&mut conn, &caller, portfolio).await?;
                drop(conn);
                return Self::everywhere(ctx, Sight::new(caller, View::Portfolio(portfolio)), resume).await;
            }
            Subject::Agent | Subject::All => {
                caller.require(Scope::ChannelsRead)?;
                let view = if subject == Subject::Agent { View::Agent } else { View::All };
                return Self::everywhere(ctx, Sight::new(caller, view), resume).await;
            }
        };
        let mut conn = ctx.pool.acquire().await?;
        let now = ctx.now();
        if let Some(channel) = channel {
            caller.require(Scope::ChannelsRead)?;
            let visit = visit(&mut conn, &caller, channel, now).await?;
            visit.viewer(&caller, ctx.settings.strict).require(&visit.channel)?;
        } else {
            caller.require(Scope::IntentsRead)?;
            seats::require(&mut conn, &caller.agent, intent, Level::Read, now).await?;
        }
        let end = super::lines::tails(&mut conn, &[intent]).await?.first().map_or(0, |(_, tail)| tail.seq);
        let position = match resume {
            None => end,
            // A mark from beyond the end is of a database that was set back: go on with what there is.
            Some(Mark::Line(seq)) => seq.clamp(0, end),
            Some(Mark::House(_)) => return Err(foreign_mark()),
        };
        let follower = ctx.feed.follow(intent, position);
        let view = channel.map_or(View::Intent, View::Channel);
        Ok(Self::new(Source::Line { follower, intent }, Sight::new(caller, view)))
    }

    /// Begins to follow what happens anywhere.
    async fn everywhere(ctx: &Ctx, sight: Sight, resume: Option<Mark>) -> Outcome<Self> {
        let (place, past) = match resume {
            None => places::now(ctx).await?,
            Some(Mark::House(place)) => (place, HashSet::new()),
            Some(Mark::Line(_)) => return Err(foreign_mark()),
        };
        Ok(Self::new(Source::House { follower: ctx.feed.follow_house(place), past }, sight))
    }

    fn new(source: Source, sight: Sight) -> Self {
        Self { source, sight, unseen: VecDeque::new(), seen: Vec::new(), settled: None }
    }

    /// The place that it follows from.
    #[must_use]
    pub fn mark(&self) -> Mark {
        match &self.source {
            Source::Line { follower, .. } => Mark::Line(follower.position),
            Source::House { follower, .. } => Mark::House(follower.position),
        }
    }

    /// Ends it: the place to go on from later. Everything up to there was handed out, or was not the caller's to see.
    #[must_use]
    pub fn leave(self) -> Mark {
        let settled = self.unseen.is_empty() && self.seen.is_empty();
        self.settled.filter(|_| !settled).unwrap_or_else(|| self.mark())
    }

    /// Waits for frames that the caller may see, and takes them. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream has ended, see [`End`].
    pub async fn next(&mut self, ctx: &Ctx) -> Result<Vec<Arc<Frame>>, End> {
        loop {
            self.check_key(ctx)?;
            while let Some(frame) = self.unseen.front().cloned() {
                let shown = self.shows(ctx, &frame).await?;
                self.unseen.pop_front();
                if shown {
                    self.seen.push(frame);
                }
            }
            if !self.seen.is_empty() {
                ctx.metrics.frames.inc_by(self.seen.len() as u64);
                return Ok(std::mem::take(&mut self.seen));
            }
            self.settled = Some(self.mark());
            self.advance(ctx).await?;
        }
    }

    /// Whether the caller's key still opens the stream.
    ///
    /// # Errors
    /// [`End::AccessEnded`].
    pub fn check_key(&self, ctx: &Ctx) -> Result<(), End> {
        if self.sight.caller.grant.in_force(ctx.now()) { Ok(()) } else { Err(End::AccessEnded) }
    }

    /// Takes the next frames from the ring, or from the database, or waits for some.
    async fn advance(&mut self, ctx: &Ctx) -> Result<(), End> {
        let grant = &self.sight.caller.grant;
        match &mut self.source {
            Source::Line { follower, intent, .. } => match follower.glance() {
                Glance::Frames(frames) => self.unseen.extend(frames),
                Glance::UpToDate => news(follower, grant).await,
                Glance::Behind => {
                    let stretch = Box::pin(places::line(ctx, *intent, follower.position)).await?;
                    let Stretch { records, reached } = stretch;
                    caught_up(ctx, &records);
                    self.unseen
                        .extend(records.into_iter().map(|(seq, r)| Arc::new(Frame::new(Mark::Line(seq), r))));
                    follower.position = reached;
                    follower.topic().start_at(reached);
                }
            },
            Source::House { follower, .. } => match follower.glance() {
                Glance::Frames(frames) => self.unseen.extend(frames),
                Glance::UpToDate => news(follower, grant).await,
                Glance::Behind => {
                    let stretch = Box::pin(places::house(ctx, follower.position)).await?;
                    let Stretch { records, reached } = stretch;
                    caught_up(ctx, &records);
                    let stuck = records.is_empty() && reached == follower.position;
                    self.unseen
                        .extend(records.into_iter().map(|(at, r)| Arc::new(Frame::new(Mark::House(at), r))));
                    follower.position = reached;
                    if stuck {
                        news(follower, grant).await;
                    }
                }
            },
        }
        Ok(())
    }

    async fn shows(&mut self, ctx: &Ctx, frame: &Frame) -> Result<bool, End> {
        if let (Source::House { past, .. }, Mark::House(place)) = (&self.source, frame.mark)
            && past.contains(&place.xid)
        {
            return Ok(false);
        }
        self.sight.shows(ctx, &frame.record).await
    }
}

/// Waits for what comes after the follower's last glance, or for the end of the key, which only its holder can tell.
pub(super) async fn news<P: Copy + Ord>(follower: &mut Follower<P>, grant: &Grant) {
    tokio::select! {
        () = follower.changed() => {}
        () = grant.voided() => {}
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
