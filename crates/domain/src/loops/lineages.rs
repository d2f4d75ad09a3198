//! A lineage: a message with all messages that came of it, and the verdict on them.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::WINDOW;
use super::policy::{LoopAction, LoopPolicy};
use super::talk::{Reach, Spoken};
use super::words::Sketch;
use crate::clock::Timestamp;
use crate::ids::{ChannelId, LineageId, MessageId};
use crate::refusal::{Code, Refusal};

/// Agents, channels and pairs of one lineage that are known by name.
pub const NAMES: usize = 64;

/// Reason why a lineage counts as a loop or a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopCause {
    /// Many hops, whose messages repeat each other.
    Loop,
    /// Too many messages in a minute.
    LineageRate,
    /// Too many messages from one agent to another in a minute.
    PairRate,
    /// Too many messages of one agent because of one message.
    FanOut,
}

/// State of a lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineageState {
    /// Nothing is wrong with it.
    Running,
    /// It was recorded as a loop or a storm.
    Told,
    /// Its agents send at a slow pace.
    Slowed,
    /// Messages of its agents are refused.
    Stopped,
    /// It was stopped, and its agents have something else to do.
    Ended,
}

impl LineageState {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Running, Self::Told, Self::Slowed, Self::Stopped, Self::Ended];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Told => "told",
            Self::Slowed => "slowed",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }

    fn action(self) -> Option<LoopAction> {
        match self {
            Self::Running | Self::Ended => None,
            Self::Told => Some(LoopAction::Tell),
            Self::Slowed => Some(LoopAction::Slow),
            Self::Stopped => Some(LoopAction::Stop),
        }
    }
}

impl From<LoopAction> for LineageState {
    fn from(action: LoopAction) -> Self {
        match action {
            LoopAction::Tell => Self::Told,
            LoopAction::Slow => Self::Slowed,
            LoopAction::Stop => Self::Stopped,
        }
    }
}

/// Messages of one agent to another, or to everybody (`*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The sender.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// Number of messages.
    pub messages: u64,
    rate: Rate,
}

/// Messages in the current minute of the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Rate {
    minute: i64,
    messages: u32,
}

impl Rate {
    fn count(&mut self, at: Timestamp) -> u32 {
        let minute = at.timestamp().div_euclid(60);
        if minute != self.minute {
            *self = Self { minute, messages: 0 };
        }
        self.messages = self.messages.saturating_add(1);
        self.messages
    }
}

/// A message with all messages that came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// Its id: that of its first message, in another form.
    pub id: LineageId,
    /// Channel of the first message.
    pub root_channel: ChannelId,
    /// Sender of the first message.
    pub root_sender: String,
    /// The most hops from the first message to any other.
    pub hops: u32,
    /// Number of messages.
    pub messages: u64,
    /// Agents that sent some, except people; the first [`NAMES`].
    pub agents: BTreeSet<String>,
    /// Channels that they were sent on; the first [`NAMES`].
    pub channels: BTreeSet<ChannelId>,
    /// Whether everybody who may read the intent may read each of its channels.
    pub is_public: bool,
    /// The pairs that talked last.
    pub pairs: Vec<Pair>,
    /// State.
    pub state: LineageState,
    /// Cause of the last step against it.
    pub cause: Option<LoopCause>,
    /// When its first message was sent.
    pub first_at: Timestamp,
    /// When its last message was sent.
    pub last_at: Timestamp,
    /// Hops that do not count any more, because somebody let it go on.
    hops_before: u32,
    window: VecDeque<Sketch>,
    repeated: VecDeque<bool>,
    rate: Rate,
    /// Number of messages at the last step.
    step_at: u64,
    /// Messages since the last one with a cause.
    calm: u32,
}

impl Lineage {
    /// Begins with a message.
    #[must_use]
    pub fn begun(said: &Spoken<'_>) -> Self {
        Self {
            id: lineage_of(said.id),
            root_channel: said.channel_id,
            root_sender: said.sender.to_owned(),
            hops: 0,
            messages: 0,
            agents: BTreeSet::new(),
            channels: BTreeSet::new(),
            is_public: true,
            pairs: Vec::new(),
            state: LineageState::Running,
            cause: None,
            first_at: said.at,
            last_at: said.at,
            hops_before: 0,
            window: VecDeque::new(),
            repeated: VecDeque::new(),
            rate: Rate::default(),
            step_at: 0,
            calm: 0,
        }
    }

    /// Id of the first message.
    #[must_use]
    pub fn root(&self) -> MessageId {
        self.id.uuid().into()
    }

    /// Number of the last messages that repeat an earlier one.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        u32::try_from(self.repeated.iter().filter(|repeats| **repeats).count()).unwrap_or(u32::MAX)
    }

    /// Takes a message in; returns the cause of a step if there is one. `sent` is the number of messages that its sender
    /// has sent because of the same one.
    pub(super) fn take(
        &mut self,
        said: &Spoken<'_>,
        hops: u32,
        sent: u32,
        policy: &LoopPolicy,
    ) -> Option<LoopCause> {
        self.messages += 1;
        self.hops = self.hops.max(hops);
        self.last_at = self.last_at.max(said.at);
        self.is_public &= said.is_public;
        if !said.is_person && self.agents.len() < NAMES {
            self.agents.insert(said.sender.to_owned());
        }
        // Whoever is not a member of all of its channels must not see it.
        if self.channels.len() < NAMES {
            self.channels.insert(said.channel_id);
        } else {
            self.is_public &= self.channels.contains(&said.channel_id);
        }
        let repeats = self.window.iter().any(|earlier| earlier.repeats(&said.sketch));
        keep(&mut self.window, said.sketch.clone());
        keep(&mut self.repeated, repeats);
        let of_lineage = self.rate.count(said.at);
        let of_pair = self.pair(said);
        let over = |count: u32, limit: u32| limit > 0 && count > limit;
        let is_loop =
            self.hops.saturating_sub(self.hops_before) >= policy.hops && self.repeats() >= policy.repeats;
        [
            (is_loop, LoopCause::Loop),
            (over(of_pair, policy.pair_per_minute), LoopCause::PairRate),
            (over(of_lineage, policy.lineage_per_minute), LoopCause::LineageRate),
            (over(sent, policy.fan_out), LoopCause::FanOut),
        ]
        .into_iter()
        .find_map(|(is_so, cause)| is_so.then_some(cause))
    }

    /// Counts a message for each pair; returns the most that one pair has in this minute.
    fn pair(&mut self, said: &Spoken<'_>) -> u32 {
        let recipients: Vec<&str> = match said.reach {
            Reach::These(agents) => agents.iter().take(NAMES).map(String::as_str).collect(),
            Reach::Members(_) | Reach::Everyone => vec!["*"],
        };
        let mut most = 0;
        for to in recipients.into_iter().filter(|to| *to != said.sender) {
            let at = self.pairs.iter().position(|pair| pair.from == said.sender && pair.to == to);
            // The one that talked last is at the end.
            let mut pair = match at {
                Some(at) => self.pairs.remove(at),
                None => Pair {
                    from: said.sender.to_owned(),
                    to: to.to_owned(),
                    messages: 0,
                    rate: Rate::default(),
                },
            };
            pair.messages += 1;
            most = most.max(pair.rate.count(said.at));
            if self.pairs.len() >= NAMES {
                self.pairs.remove(0);
            }
            self.pairs.push(pair);
        }
        most
    }

    /// Updates the state after a message and the cause that it gave, if any; returns whether the state has changed.
    pub(super) fn judge(&mut self, cause: Option<LoopCause>, policy: &LoopPolicy) -> bool {
        let Some(cause) = cause else {
            self.calm = self.calm.saturating_add(1);
            let is_over = matches!(self.state, LineageState::Told | LineageState::Slowed)
                && usize::try_from(self.calm).is_ok_and(|calm| calm >= WINDOW);
            if is_over {
                self.state = LineageState::Running;
            }
            return is_over;
        };
        self.calm = 0;
        let steps = if cause == LoopCause::Loop { &policy.loop_steps } else { &policy.storm_steps };
        let reached = self.state.action();
        if reached.is_some() && self.messages < self.step_at + u64::from(policy.patience) {
            return false;
        }
        let Some(next) = steps.iter().find(|step| reached.is_none_or(|reached| **step > reached)) else {
            return false;
        };
        self.cause = Some(cause);
        self.step_at = self.messages;
        self.state = (*next).into();
        true
    }

    /// Lets it go on: its messages until now are no evidence any more.
    pub(super) fn release(&mut self) {
        self.state = LineageState::Running;
        self.hops_before = self.hops;
        self.window.clear();
        self.repeated.clear();
        self.rate = Rate::default();
        self.pairs.iter_mut().for_each(|pair| pair.rate = Rate::default());
        self.calm = 0;
    }

    /// Returns the payload of its event in the log. It names the agents and the first message only if all readers of
    /// the intent may read the lineage.
    #[must_use]
    pub fn event_payload(&self) -> Value {
        let mut payload = json!({
            "lineage_id": self.id, "state": self.state, "cause": self.cause, "hops": self.hops,
            "messages": self.messages, "repeats": self.repeats(), "public": self.is_public,
        });
        if self.is_public {
            payload["agents"] = json!(self.agents);
            payload["root"] = json!({ "message_id": self.root(), "channel_id": self.root_channel, "sender": self.root_sender });
        }
        payload
    }
}

/// Returns the id of the lineage that begins with a message.
#[must_use]
pub fn lineage_of(root: MessageId) -> LineageId {
    root.uuid().into()
}

fn keep<T>(window: &mut VecDeque<T>, item: T) {
    if window.len() >= WINDOW {
        window.pop_front();
    }
    window.push_back(item);
}

/// An agent that may not send as it likes on an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The agent.
    pub agent: String,
    /// The lineage that it is in.
    pub lineage: LineageId,
    /// [`LoopAction::Slow`] or [`LoopAction::Stop`].
    pub action: LoopAction,
    /// When a slowed agent may send next.
    pub next_at: Timestamp,
}

impl Hold {
    /// Returns the refusal of a message that the agent sends now, if it may not.
    #[must_use]
    pub fn objection(&self, now: Timestamp) -> Option<Refusal> {
        let (agent, lineage) = (&self.agent, self.lineage);
        if self.action == LoopAction::Stop {
            let message = format!(
                "{agent} was in a loop of messages ({lineage}), which is stopped. Do not send this again: go on when somebody \
                 outside of the loop sends you something new, or ask whoever manages the intent to let the lineage go on."
            );
            return Some(Refusal::new(Code::LoopStopped, message));
        }
        let wait = (self.next_at - now).num_milliseconds();
        if self.action != LoopAction::Slow || wait <= 0 {
            return None;
        }
        let seconds = u32::try_from(wait.div_euclid(1_000) + 1).unwrap_or(u32::MAX);
        let message = format!(
            "{agent} is in a loop or a storm of messages ({lineage}), and sends slowly for now: wait {seconds} s. If you have \
             nothing new to say, send nothing."
        );
        let mut refusal = Refusal::new(Code::LoopSlowed, message);
        refusal.retry_after_seconds = Some(seconds);
        Some(refusal)
    }
}
