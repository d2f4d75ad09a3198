//! Sight: what one caller sees of all that happens, and only while it may. A stream looks through one, and so does whatever
//! is delivered to a receiver of webhooks (`fanout.rs`).

use std::collections::HashMap;

use entente_domain::access::Level;
use entente_domain::channels::Channel;
use entente_domain::clock::Timestamp;
use entente_domain::events::{Event, Kind};
use entente_domain::ids::{ChannelId, IntentId, PortfolioId};
use entente_domain::keys::Scope;
use entente_domain::messages::{Message, MessageStatus, Viewer};

use super::End;
use super::members::Members;
use crate::feed::Record;
use crate::seats::{self, Seat};
use crate::visits::visit;
use crate::{AppError, Caller, Ctx, Outcome};

/// Intents whose seat is remembered at the most.
const SEATS: usize = 10_000;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// One intent, whose records alone are shown to it.
    Intent,
    /// One channel, of the intent whose records are shown to it.
    Channel(ChannelId),
    /// The intents of one portfolio.
    Portfolio(PortfolioId),
    /// What concerns the acting agent.
    Agent,
    /// Everything that the caller may see.
    All,
}

/// A caller who looks.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Who looks.
    pub caller: Caller,
    pub(super) view: View,
    /// Where the caller stands, with each intent that came by.
    seats: HashMap<IntentId, Option<Seat>>,
    /// What is in the portfolio that is looked at.
    pub(super) members: Members,
}

impl Sight {
    /// A caller who has seen nothing yet.
    pub fn new(caller: Caller, view: View) -> Self {
        Self { caller, view, seats: HashMap::new(), members: Members::default() }
    }

    /// As [`Self::shows`] of what was noticed already, where the end of what was looked at is only one thing more that is not
    /// seen.
    pub async fn sees(&mut self, ctx: &Ctx, record: &Record) -> Outcome<bool> {
        match self.judge(ctx, record).await {
            Ok(seen) => Ok(seen),
            Err(End::AccessEnded | End::Gone) => Ok(false),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    /// Whether its caller may read an intent at this moment, and looks at it.
    pub async fn reads(&mut self, ctx: &Ctx, intent: IntentId) -> Outcome<bool> {
        let look = async {
            let inside = match self.view {
                View::Portfolio(portfolio) => self.has(ctx, portfolio, intent).await?,
                View::Intent | View::Channel(_) | View::Agent | View::All => true,
            };
            let seat = self.seat(ctx, intent).await?;
            Ok(inside && seat.is_some_and(|seat| seat.standing.reaches(Level::Read)))
        };
        match look.await {
            Ok(reads) => Ok(reads),
            Err(End::AccessEnded | End::Gone) => Ok(false),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    /// Notices what may change where its caller stands; whether that is to be looked up anew.
    pub fn notice(&mut self, record: &Record) -> bool {
        if let Record::Event { event, .. } = record {
            self.notice_members(event);
        }
        match record {
            Record::Event { event, .. } if moves_seats(event) => {
                self.seats.remove(&event.intent_id).is_some()
            }
            _ => false,
        }
    }

    /// Whether its caller sees a record at this moment. Records are to be shown to it in their order.
    ///
    /// # Errors
    /// What it looks at is gone, or no longer the caller's to see.
    pub async fn shows(&mut self, ctx: &Ctx, record: &Record) -> Result<bool, End> {
        self.notice(record);
        self.judge(ctx, record).await
    }

    async fn judge(&mut self, ctx: &Ctx, record: &Record) -> Result<bool, End> {
        let intent = record.intent_id();
        if let View::Portfolio(portfolio) = self.view {
            return self.shows_in_portfolio(ctx, portfolio, record).await;
        }
        if matches!(self.view, View::Agent | View::All) && self.is_party(record) {
            return Ok(true);
        }
        if intent == IntentId::HOUSE {
            return Ok(self.shows_house(record));
        }
        let seat = self.seat(ctx, intent).await?;
        let readable = seat.as_ref().is_some_and(|seat| seat.standing.reaches(Level::Read));
        match self.view {
            View::Intent | View::Channel(_) if !readable => Err(End::AccessEnded),
            View::Channel(channel) => self.shows_on_channel(ctx, channel, record, seat.as_ref()).await,
            View::Intent => Ok(self.shows_record(ctx, record, seat.as_ref())),
            View::Agent => Ok(self.concerns_agent(ctx, record, seat.as_ref())),
            View::All | View::Portfolio(_) => Ok(readable && self.shows_record(ctx, record, seat.as_ref())),
        }
    }

    /// Where the caller stands with an intent: remembered until something happens that may change it, or until its
    /// entry ends.
    pub(super) async fn seat(&mut self, ctx: &Ctx, intent: IntentId) -> Result<Option<Seat>, End> {
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
        self.learn(intent, seat.clone());
        Ok(seat)
    }

    /// Remembers where the caller stands with an intent.
    pub fn learn(&mut self, intent: IntentId, seat: Option<Seat>) {
        if self.seats.len() >= SEATS {
            self.seats.clear();
        }
        self.seats.insert(intent, seat);
    }

    /// Whether it has to look up where the caller stands with an intent.
    pub fn asks_for(&self, intent: IntentId) -> bool {
        intent != IntentId::HOUSE && !self.seats.contains_key(&intent) && self.may_have(intent)
    }

    /// Forgets where the caller stands: something may have passed that this has not seen.
    pub fn forget(&mut self) {
        self.members = Members::Unknown;
        self.seats.clear();
    }

    /// On a channel's stream: its messages, what happens to them and to itself. When it is closed, the stream ends if it
    /// was deleted.
    async fn shows_on_channel(
        &self,
        ctx: &Ctx,
        channel: ChannelId,
        record: &Record,
        seat: Option<&Seat>,
    ) -> Result<bool, End> {
        match record {
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
            _ => Ok(self.shows_record(ctx, record, seat)),
        }
    }

    /// Whether one who can read the intent sees the record.
    pub(super) fn shows_record(&self, ctx: &Ctx, record: &Record, seat: Option<&Seat>) -> bool {
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

    fn viewer(&self, ctx: &Ctx, channel: &Channel, seat: Option<&Seat>) -> Viewer<'_> {
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

    /// Whether it tells of a binding moment that the caller asked or is asked: both hear of it wherever it is told, because a
    /// question that nobody hears of waits in silence. Such an event has no words of it.
    fn is_party(&self, record: &Record) -> bool {
        let Record::Event { event, .. } = record else { return false };
        if event.posted || !event.event_type.starts_with("moment.") || !self.caller.has(Scope::MomentsRead) {
            return false;
        }
        let party = |member| event.payload.get(member).and_then(|id| id.as_str()) == Some(&self.caller.agent);
        ["agent_id", "principal_id", "escalated_to"].into_iter().any(party)
    }

    /// The house's own log: agents hear of themselves, admins of everything.
    fn shows_house(&self, record: &Record) -> bool {
        let Record::Event { event, .. } = record else { return false };
        let named = event.payload.get("agent_id").and_then(|id| id.as_str()) == Some(&self.caller.agent);
        match self.view {
            View::Agent => named,
            View::All => named || self.caller.has(Scope::Admin),
            View::Intent | View::Channel(_) | View::Portfolio(_) => false,
        }
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
