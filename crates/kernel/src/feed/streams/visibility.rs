//! Visibility: which records one caller sees at a given moment. Streams use it, and so do deliveries to webhook
//! receivers (`fanout.rs`).

use entente_domain::access::Level;
use entente_domain::clock::Timestamp;
use entente_domain::identity::keys::Scope;
use entente_domain::ids::{ChannelId, IntentId, PortfolioId};
use entente_domain::log::events::{Event, Kind};
use entente_domain::openintent::channels::Channel;
use entente_domain::openintent::messages::{Message, MessageStatus, Viewer};
use entente_runtime::cache::OwnedCache;
use entente_runtime::metrics::Metrics;

use super::End;
use super::members::Members;
use crate::access::membership;
use crate::access::membership::Membership;
use crate::channels::access::visit;
use crate::log::Record;
use crate::{AppError, Caller, Ctx, Outcome};

/// Maximum number of cached memberships; the least recently used one is dropped.
const MEMBERSHIPS: usize = 10_000;

/// The part of all records that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// One intent; only its records are checked.
    Intent,
    /// One channel; only the records of its intent are checked.
    Channel(ChannelId),
    /// The intents of one portfolio.
    Portfolio(PortfolioId),
    /// Records that concern the acting agent.
    Agent,
    /// Everything that the caller may see.
    All,
}

/// A caller's view, with its cached memberships.
#[derive(Debug)]
pub struct VisibilityFilter {
    /// The caller.
    pub caller: Caller,
    pub(super) view: View,
    /// The caller's membership in each intent seen so far.
    memberships: OwnedCache<IntentId, Option<Membership>>,
    /// Members of the followed portfolio.
    pub(super) members: Members,
}

impl VisibilityFilter {
    /// Creates a view without cached memberships, for a few records: no metric shows its cache.
    #[must_use]
    pub fn new(caller: Caller, view: View) -> Self {
        let memberships = OwnedCache::uncounted(MEMBERSHIPS);
        Self { caller, view, memberships, members: Members::default() }
    }

    /// Creates a view that lasts, without cached memberships.
    #[must_use]
    pub(crate) fn lasting(caller: Caller, view: View, metrics: &Metrics) -> Self {
        let memberships = OwnedCache::new("memberships", MEMBERSHIPS, metrics);
        Self { caller, view, memberships, members: Members::default() }
    }

    /// Like [`Self::shows`], for a record that was passed to [`Self::notice`] before; a view that has ended sees
    /// nothing.
    ///
    /// # Errors
    /// A database error; a stored value is invalid.
    pub async fn sees(&mut self, ctx: &Ctx, record: &Record) -> Outcome<bool> {
        match self.judge(ctx, record).await {
            Ok(seen) => Ok(seen),
            Err(End::AccessEnded | End::Gone) => Ok(false),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    /// Returns whether the caller may read an intent at this moment, and the intent belongs to the view.
    pub(crate) async fn reads(&mut self, ctx: &Ctx, intent: IntentId) -> Outcome<bool> {
        let look = async {
            let inside = match self.view {
                View::Portfolio(portfolio) => self.has(ctx, portfolio, intent).await?,
                View::Intent | View::Channel(_) | View::Agent | View::All => true,
            };
            let membership = self.membership(ctx, intent).await?;
            Ok(inside && membership.is_some_and(|membership| membership.access.reaches(Level::Read)))
        };
        match look.await {
            Ok(reads) => Ok(reads),
            Err(End::AccessEnded | End::Gone) => Ok(false),
            Err(End::Failed(failure)) => Err(failure),
        }
    }

    /// Drops cached memberships that a record may change; returns whether one must be loaded again.
    pub(crate) fn notice(&mut self, record: &Record) -> bool {
        if let Record::Event { event, .. } = record {
            self.notice_members(event);
        }
        match record {
            Record::Event { event, .. } if changes_membership(event) => {
                self.memberships.remove(&event.intent_id).is_some()
            }
            _ => false,
        }
    }

    /// Returns whether the caller sees a record at this moment; records must be passed in order.
    ///
    /// # Errors
    /// The subject of the view was deleted, or the caller may no longer see it.
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
        if intent == IntentId::SYSTEM {
            return Ok(self.shows_system(record));
        }
        let membership = self.membership(ctx, intent).await?;
        let readable = membership.as_ref().is_some_and(|membership| membership.access.reaches(Level::Read));
        match self.view {
            View::Intent | View::Channel(_) if !readable => Err(End::AccessEnded),
            View::Channel(channel) => self.shows_on_channel(ctx, channel, record, membership.as_ref()).await,
            View::Intent => Ok(self.shows_record(ctx, record, membership.as_ref())),
            View::Agent => Ok(self.concerns_agent(ctx, record, membership.as_ref())),
            View::All | View::Portfolio(_) => {
                Ok(readable && self.shows_record(ctx, record, membership.as_ref()))
            }
        }
    }

    /// Returns the caller's membership in an intent, cached until an event may change it or its entry ends.
    pub(super) async fn membership(
        &mut self,
        ctx: &Ctx,
        intent: IntentId,
    ) -> Result<Option<Membership>, End> {
        let now = ctx.now();
        let valid = |membership: &Option<Membership>| {
            membership
                .as_ref()
                .is_none_or(|membership| membership.access.until.is_none_or(|until| until > now))
        };
        let cached = |membership: &Option<Membership>| valid(membership).then(|| membership.clone());
        if let Some(membership) = self.memberships.find(&intent, cached) {
            return Ok(membership);
        }
        // Rarely awaited futures are boxed, so that a waiting stream stays small.
        let look = async {
            let mut conn = ctx.pool.acquire().await.map_err(AppError::from)?;
            membership::find(&mut conn, &self.caller.agent, intent, now).await
        };
        let membership = Box::pin(look).await?;
        self.learn(intent, membership.clone());
        Ok(membership)
    }

    /// Caches the caller's membership in an intent.
    pub fn learn(&mut self, intent: IntentId, membership: Option<Membership>) {
        self.memberships.put(intent, membership);
    }

    /// Returns whether the caller's membership in an intent must be loaded.
    #[must_use]
    pub(crate) fn asks_for(&self, intent: IntentId) -> bool {
        intent != IntentId::SYSTEM && self.memberships.peek(&intent).is_none() && self.may_have(intent)
    }

    /// Drops everything cached, because events may have been missed.
    pub fn forget(&mut self) {
        self.members = Members::Unknown;
        self.memberships.clear();
    }

    /// Decides for a channel's stream: its messages, their receipts, and its own events.
    ///
    /// When the channel is closed, the stream ends if the channel was deleted.
    async fn shows_on_channel(
        &self,
        ctx: &Ctx,
        channel: ChannelId,
        record: &Record,
        membership: Option<&Membership>,
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
            _ => Ok(self.shows_record(ctx, record, membership)),
        }
    }

    /// Decides whether a caller that can read the intent sees the record.
    pub(super) fn shows_record(&self, ctx: &Ctx, record: &Record, membership: Option<&Membership>) -> bool {
        match record {
            Record::Event { .. } => self.caller.has(Scope::IntentsRead),
            Record::Message { message, channel } => {
                let viewer = self.viewer(ctx, channel, membership);
                self.caller.has(Scope::ChannelsRead) && delivered(message, &viewer, ctx.now())
            }
            Record::Receipt { receipt, message, channel } => {
                let viewer = self.viewer(ctx, channel, membership);
                let party = message.sender == viewer.agent || receipt.agent == viewer.agent;
                self.caller.has(Scope::ChannelsRead) && (viewer.manages || viewer.sees_all || party)
            }
        }
    }

    fn viewer(&self, ctx: &Ctx, channel: &Channel, membership: Option<&Membership>) -> Viewer<'_> {
        let agent = &self.caller.agent;
        Viewer {
            agent,
            admitted: channel.admits(agent),
            manages: membership.is_some_and(|membership| {
                channel.managed_by(agent, membership.access, membership.coordinates)
            }),
            sees_all: self.caller.sees_all(ctx.settings.strict),
        }
    }

    /// Returns whether a record concerns the agent: its assignments, its assigned intents, tasks assigned to it,
    /// messages to it, and receipts of its own messages.
    fn concerns_agent(&self, ctx: &Ctx, record: &Record, membership: Option<&Membership>) -> bool {
        let agent = &self.caller.agent;
        let readable = membership.is_some_and(|membership| membership.access.reaches(Level::Read));
        let assigned = membership.is_some_and(|membership| membership.assigned);
        match record {
            Record::Event { event, .. } => {
                if is_assignment(event) {
                    return self.names(event);
                }
                let tasked = event.payload.get("assigned_agent").and_then(|id| id.as_str()) == Some(agent);
                readable && (assigned || tasked && !event.posted && event.event_type.starts_with("task."))
            }
            Record::Message { message, channel } => {
                // Never on behalf of others, whatever the key permits: this is the agent's own stream.
                let viewer =
                    Viewer { agent, admitted: channel.admits(agent), manages: false, sees_all: false };
                let listed = channel.members.iter().any(|member| member == agent);
                let reaches = message.recipients.is_some() || assigned || listed;
                readable && message.sender != *agent && reaches && delivered(message, &viewer, ctx.now())
            }
            Record::Receipt { message, .. } => readable && message.sender == *agent,
        }
    }

    /// Returns whether an event names the agent.
    fn names(&self, event: &Event) -> bool {
        event.payload.get("agent_id").and_then(|id| id.as_str()) == Some(&self.caller.agent)
    }

    /// Returns whether a record belongs to a binding moment that the caller asks or is asked to decide.
    ///
    /// Both parties see it in every view, because a question that nobody notices would wait in silence. Such an event
    /// contains none of its text.
    fn is_party(&self, record: &Record) -> bool {
        let Record::Event { event, .. } = record else { return false };
        if event.posted || !event.event_type.starts_with("moment.") || !self.caller.has(Scope::MomentsRead) {
            return false;
        }
        let party = |member| event.payload.get(member).and_then(|id| id.as_str()) == Some(&self.caller.agent);
        ["agent_id", "principal_id", "escalated_to"].into_iter().any(party)
    }

    /// Decides about the system log: agents see the events about themselves, admins all of them.
    fn shows_system(&self, record: &Record) -> bool {
        let Record::Event { event, .. } = record else { return false };
        match self.view {
            View::Agent => self.names(event),
            View::All => self.names(event) || self.caller.has(Scope::Admin),
            View::Intent | View::Channel(_) | View::Portfolio(_) => false,
        }
    }
}

/// Returns whether a message is delivered at this moment: it may have expired since its frame was built.
fn delivered(message: &Message, viewer: &Viewer<'_>, now: Timestamp) -> bool {
    let late = message.status == MessageStatus::Delivered && message.expires_at.is_some_and(|end| end <= now);
    message.delivered_to(viewer) && (!late || viewer.manages || message.sender == viewer.agent)
}

/// Returns whether an event is the server's own about an assignment.
fn is_assignment(event: &Event) -> bool {
    let kinds = [Kind::AgentAssigned, Kind::AgentUnassigned];
    !event.posted && kinds.iter().any(|kind| kind.wire() == event.event_type)
}

/// Returns whether an event may change a membership in its intent.
fn changes_membership(event: &Event) -> bool {
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
