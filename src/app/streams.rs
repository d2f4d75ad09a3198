//! Streams: following one intent, one channel, one agent's affairs, or everything that a caller may see.
//!
//! A stream holds a position and nothing else. It reads from the feed's ring while it keeps up, else from the database
//! (`places.rs`), and asks again where its caller stands when that may have changed. Filling the rings: `streams/filling.rs`.

mod filling;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use entente_core::access::Level;
use entente_core::clock::Timestamp;
use entente_core::events::{Event, Kind};
use entente_core::ids::{ChannelId, IntentId};
use entente_core::keys::Scope;
use entente_core::messages::{Message, MessageStatus, Viewer};
use entente_core::refusal::{Code, Refusal};

use super::places::{self, Stretch};
use super::seats::Seat;
use super::visits::visit;
use super::{AppError, Caller, Ctx, Grant, Outcome, seats};
use crate::feed::{Follower, Frame, Glance, Mark, Place, Record};

pub use filling::{fill, look_around, tail};

/// Intents whose seat a stream over many remembers at the most.
const SEATS: usize = 10_000;

/// What a stream follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One intent.
    Intent(IntentId),
    /// One channel.
    Channel(ChannelId),
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
    Line { follower: Follower<i64>, intent: IntentId, channel: Option<ChannelId> },
    House { follower: Follower<Place>, agent_only: bool, past: HashSet<i64> },
}

/// One who follows.
#[derive(Debug)]
pub struct Stream {
    source: Source,
    caller: Caller,
    /// Where the caller stands, with each intent that came by.
    seats: HashMap<IntentId, Option<Seat>>,
    /// Frames that were read and not yet looked at.
    unseen: VecDeque<Arc<Frame>>,
    /// Frames that are to be handed out. Kept here, because whoever waits for them may give up waiting at any moment.
    seen: Vec<Arc<Frame>>,
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
            Subject::Agent | Subject::All => {
                caller.require(Scope::ChannelsRead)?;
                let (place, past) = match resume {
                    None => places::now(ctx).await?,
                    Some(Mark::House(place)) => (place, HashSet::new()),
                    Some(Mark::Line(_)) => return Err(foreign_mark()),
                };
                let follower = ctx.feed.follow_house(place);
                let source = Source::House { follower, agent_only: subject == Subject::Agent, past };
                return Ok(Self::new(source, caller));
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
        Ok(Self::new(Source::Line { follower, intent, channel }, caller))
    }

    fn new(source: Source, caller: Caller) -> Self {
        Self { source, caller, seats: HashMap::new(), unseen: VecDeque::new(), seen: Vec::new() }
    }

    /// The place that it follows from.
    pub(crate) fn mark(&self) -> Mark {
        match &self.source {
            Source::Line { follower, .. } => Mark::Line(follower.position),
            Source::House { follower, .. } => Mark::House(follower.position),
        }
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
            self.advance(ctx).await?;
        }
    }

    /// Whether the caller's key still opens the stream.
    ///
    /// # Errors
    /// [`End::AccessEnded`].
    pub fn check_key(&self, ctx: &Ctx) -> Result<(), End> {
        if self.caller.grant.in_force(ctx.now()) { Ok(()) } else { Err(End::AccessEnded) }
    }

    /// Takes the next frames from the ring, or from the database, or waits for some.
    async fn advance(&mut self, ctx: &Ctx) -> Result<(), End> {
        let grant = &self.caller.grant;
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
        let intent = frame.record.intent_id();
        if let (Source::House { past, .. }, Mark::House(place)) = (&self.source, frame.mark)
            && past.contains(&place.xid)
        {
            return Ok(false);
        }
        if let Record::Event { event, .. } = &frame.record
            && moves_seats(event)
        {
            self.seats.remove(&intent);
        }
        if intent == IntentId::HOUSE {
            return Ok(self.shows_house(frame));
        }
        let seat = self.seat(ctx, intent).await?;
        let readable = seat.as_ref().is_some_and(|seat| seat.standing.reaches(Level::Read));
        match &self.source {
            Source::Line { .. } if !readable => Err(End::AccessEnded),
            Source::Line { channel: Some(channel), .. } => {
                let channel = *channel;
                self.shows_on_channel(ctx, channel, frame, seat.as_ref()).await
            }
            Source::Line { channel: None, .. } => Ok(self.shows_record(ctx, &frame.record, seat.as_ref())),
            Source::House { agent_only: true, .. } => {
                Ok(self.concerns_agent(ctx, &frame.record, seat.as_ref()))
            }
            Source::House { .. } => Ok(readable && self.shows_record(ctx, &frame.record, seat.as_ref())),
        }
    }

    /// Where the caller stands with an intent: remembered until something happens that may change it, or until its
    /// entry ends.
    async fn seat(&mut self, ctx: &Ctx, intent: IntentId) -> Result<Option<Seat>, End> {
        let now = ctx.now();
        let valid = |seat: &Option<Seat>| {
            seat.as_ref().is_none_or(|seat| seat.standing.until.is_none_or(|until| until > now))
        };
        if let Some(seat) = self.seats.get(&intent).filter(|seat| valid(seat)) {
            return Ok(seat.clone());
        }
        // What is rarely awaited is boxed: a stream that waits is then as small as its waiting.
        let look = async {
            let mut conn = ctx.pool.acquire().await.map_err(AppError::from)?;
            seats::seat(&mut conn, &self.caller.agent, intent, now).await
        };
        let seat = Box::pin(look).await?;
        if self.seats.len() >= SEATS {
            self.seats.clear();
        }
        self.seats.insert(intent, seat.clone());
        Ok(seat)
    }

    /// On a channel's stream: its messages, what happens to them and to itself. When it is closed, the stream ends if it
    /// was deleted.
    async fn shows_on_channel(
        &self,
        ctx: &Ctx,
        channel: ChannelId,
        frame: &Frame,
        seat: Option<&Seat>,
    ) -> Result<bool, End> {
        match &frame.record {
            Record::Message { message, .. } | Record::Receipt { message, .. }
                if message.channel_id != channel =>
            {
                Ok(false)
            }
            Record::Event { event, .. } => {
                let about = event.payload.get("channel_id").and_then(|id| id.as_str());
                if about != Some(&channel.to_string())
                    || !event.event_type.starts_with("channel.")
                    || event.posted
                {
                    return Ok(false);
                }
                let look = async {
                    let mut conn = ctx.pool.acquire().await.map_err(AppError::from)?;
                    visit(&mut conn, &self.caller, channel, ctx.now()).await
                };
                match Box::pin(look).await {
                    Ok(visit) => {
                        let viewer = visit.viewer(&self.caller, ctx.settings.strict);
                        viewer.require(&visit.channel).map_err(|_no_longer| End::AccessEnded)?;
                        Ok(true)
                    }
                    Err(AppError::Refused(_)) => Err(End::Gone),
                    Err(failure) => Err(failure.into()),
                }
            }
            record => Ok(self.shows_record(ctx, record, seat)),
        }
    }

    /// Whether one who can read the intent sees the record.
    fn shows_record(&self, ctx: &Ctx, record: &Record, seat: Option<&Seat>) -> bool {
        match record {
            Record::Event { .. } => self.caller.has(Scope::IntentsRead),
            Record::Message { message, channel } => {
                let viewer = self.viewer(ctx, channel, seat);
                self.caller.has(Scope::ChannelsRead) && delivered(message, &viewer, ctx.now())
            }
            Record::Receipt { receipt, message, channel } => {
                let viewer = self.viewer(ctx, channel, seat);
                let party = message.sender == viewer.agent || receipt.agent == viewer.agent;
                self.caller.has(Scope::ChannelsRead) && (viewer.manages || viewer.sees_all || party)
            }
        }
    }

    fn viewer(
        &self,
        ctx: &Ctx,
        channel: &entente_core::channels::Channel,
        seat: Option<&Seat>,
    ) -> Viewer<'_> {
        let agent = &self.caller.agent;
        Viewer {
            agent,
            admitted: channel.admits(agent),
            manages: seat.is_some_and(|seat| channel.managed_by(agent, seat.standing, seat.coordinates)),
            sees_all: self.caller.sees_all(ctx.settings.strict),
        }
    }

    /// Whether a record concerns the agent: its assignments, the intents that it is assigned to, tasks that it has or is to
    /// take, messages for it, and what becomes of its own.
    fn concerns_agent(&self, ctx: &Ctx, record: &Record, seat: Option<&Seat>) -> bool {
        let agent = &self.caller.agent;
        let readable = seat.is_some_and(|seat| seat.standing.reaches(Level::Read));
        let assigned = seat.is_some_and(|seat| seat.assigned);
        match record {
            Record::Event { event, .. } => {
                let named = event.payload.get("agent_id").and_then(|id| id.as_str()) == Some(agent);
                let assignment = [Kind::AgentAssigned, Kind::AgentUnassigned];
                if !event.posted && assignment.iter().any(|kind| kind.wire() == event.event_type) {
                    return named;
                }
                let tasked = event.payload.get("assigned_agent").and_then(|id| id.as_str()) == Some(agent);
                readable && (assigned || tasked && !event.posted && event.event_type.starts_with("task."))
            }
            Record::Message { message, channel } => {
                // Not on behalf of others here, whatever the key may do: this is the agent's own stream.
                let viewer =
                    Viewer { agent, admitted: channel.admits(agent), manages: false, sees_all: false };
                let listed = channel.members.iter().any(|member| member == agent);
                let reaches = message.recipients.is_some() || assigned || listed;
                readable && message.sender != *agent && reaches && delivered(message, &viewer, ctx.now())
            }
            Record::Receipt { message, .. } => readable && message.sender == *agent,
        }
    }

    /// The house's own log: agents hear of themselves, admins of everything.
    fn shows_house(&self, frame: &Frame) -> bool {
        let Record::Event { event, .. } = &frame.record else { return false };
        let named = event.payload.get("agent_id").and_then(|id| id.as_str()) == Some(&self.caller.agent);
        match &self.source {
            Source::House { agent_only: true, .. } => named,
            Source::House { .. } => named || self.caller.has(Scope::Admin),
            Source::Line { .. } => false,
        }
    }
}

/// Waits for what comes after the follower's last glance, or for the end of the key, which only its holder can tell.
pub(super) async fn news<P: Copy + Ord>(follower: &mut Follower<P>, grant: &Grant) {
    tokio::select! {
        () = follower.changed() => {}
        () = grant.voided() => {}
    }
}

/// Whether a message is handed out at this moment: it may have expired since its frame was made.
fn delivered(message: &Message, viewer: &Viewer<'_>, now: Timestamp) -> bool {
    let late = message.status == MessageStatus::Delivered && message.expires_at.is_some_and(|end| end <= now);
    message.delivered_to(viewer) && (!late || viewer.manages || message.sender == viewer.agent)
}

/// Whether an event may change where somebody stands with its intent.
fn moves_seats(event: &Event) -> bool {
    let kinds = [
        Kind::AccessGranted,
        Kind::AccessRevoked,
        Kind::AccessExpired,
        Kind::AgentAssigned,
        Kind::AgentUnassigned,
        Kind::StatusChanged,
    ];
    kinds.iter().any(|kind| kind.wire() == event.event_type)
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
