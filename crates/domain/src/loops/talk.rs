//! The talk of one intent: the last message that each agent was sent, and the lineages of their messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::lineages::{Hold, Lineage, LineageState, lineage_of};
use super::policy::{LoopAction, LoopPolicy};
use super::words::Sketch;
use crate::clock::Timestamp;
use crate::ids::{ChannelId, LineageId, MessageId};

/// Agents of one intent whose last message is known; beyond them the one that was sent something longest ago is forgotten.
const AGENTS: usize = 512;

/// Lineages of one intent that are followed at a time.
const LINEAGES: usize = 64;

/// Requests of one intent whose lineage is known when they are answered.
const REQUESTS: usize = 256;

/// Days after which a stopped lineage ends by itself.
const STOPPED_DAYS: i64 = 7;

/// Whom a message is for.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'a> {
    /// Its recipients.
    These(&'a [String]),
    /// The members of a closed channel.
    Members(&'a [String]),
    /// Everybody on the intent.
    Everyone,
}

/// A message, as far as lineages need it.
#[derive(Debug, Clone)]
pub struct Spoken<'a> {
    /// Its id.
    pub id: MessageId,
    /// Its channel.
    pub channel_id: ChannelId,
    /// Who sent it.
    pub sender: &'a str,
    /// Whether that is a person: each message of a person begins a lineage.
    pub is_person: bool,
    /// Whom it is for.
    pub reach: Reach<'a>,
    /// Whether it asks for an answer.
    pub is_request: bool,
    /// The request that it answers.
    pub answers: Option<MessageId>,
    /// When it was sent.
    pub at: Timestamp,
    /// Whether everybody who may read the intent may read its channel.
    pub is_public: bool,
    /// Sketch of its text.
    pub sketch: Sketch,
}

/// Work that an agent was given: a task, a job, or another agent's part of an intent.
#[derive(Debug, Clone)]
pub struct GivenWork<'a> {
    /// Who has it now.
    pub agent: &'a str,
    /// Who gave it.
    pub giver: &'a str,
    /// Whether that is a person.
    pub is_person: bool,
    /// When.
    pub at: Timestamp,
}

/// Where an agent is: the last message that it was sent, or that it said without having been sent any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    lineage: LineageId,
    hops: u32,
    at: Timestamp,
    /// Number of the message among those that were heard: many have the same time.
    number: u64,
    /// Whether the message is its own.
    is_own: bool,
    /// Whether it is no message, but work that belongs to no lineage: the agent's next message begins one.
    #[serde(default)]
    is_new: bool,
    /// Number of messages that it has sent since.
    sent: u32,
}

/// A request that may be answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    id: MessageId,
    lineage: LineageId,
    hops: u32,
    at: Timestamp,
}

/// Why a lineage is no loop or storm any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It has calmed down by itself.
    Calm,
    /// All of its agents were sent something new.
    Left,
    /// It was stopped a week ago.
    Expired,
    /// Somebody let it go on.
    Released,
}

impl Ending {
    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Left => "left",
            Self::Expired => "expired",
            Self::Released => "released",
        }
    }
}

/// Something to tell: a step against a lineage, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The lineage as it is then.
    pub lineage: Lineage,
    /// Why it is over; `None` for a step.
    pub ending: Option<Ending>,
}

/// The talk of one intent. Its size is bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Talk {
    /// Number of messages that were heard.
    heard: u64,
    places: BTreeMap<String, Place>,
    /// The last messages to everybody, of the two agents that sent some last: an agent is not sent its own.
    everyone: VecDeque<(String, Place)>,
    asked: VecDeque<Asked>,
    lineages: BTreeMap<LineageId, Lineage>,
    /// Lineages that have changed since the last [`Self::take_changed`]; with their last state those that are not followed any more.
    #[serde(skip)]
    changed: BTreeMap<LineageId, Option<Lineage>>,
    #[serde(skip)]
    news: Vec<News>,
}

impl Talk {
    /// Whether nothing is left to know.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
            && self.everyone.is_empty()
            && self.asked.is_empty()
            && self.lineages.is_empty()
    }

    /// Returns a lineage that is followed.
    #[must_use]
    pub fn lineage(&self, id: LineageId) -> Option<&Lineage> {
        self.lineages.get(&id)
    }

    /// Takes the lineages that have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<Lineage> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .filter_map(|(id, gone)| gone.or_else(|| self.lineages.get(&id).cloned()))
            .collect()
    }

    /// Takes the news since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Hears a message; returns its lineage and hops.
    pub fn hear(&mut self, said: &Spoken<'_>, policy: &LoopPolicy) -> (LineageId, u32) {
        self.heard += 1;
        let answered = said.answers.and_then(|id| self.asked.iter().find(|asked| asked.id == id)).cloned();
        let answered = answered.filter(|asked| self.goes_on(asked.lineage, said.sender));
        let place = if said.is_person { None } else { self.place(said.sender, said.at, policy) };
        let (lineage, hops) = match (&answered, &place) {
            _ if said.is_person => (lineage_of(said.id), 0),
            (Some(asked), _) => (asked.lineage, asked.hops.saturating_add(1)),
            (None, Some(own)) if own.is_own => (own.lineage, own.hops),
            (None, Some(heard)) => (heard.lineage, heard.hops.saturating_add(1)),
            (None, None) => (lineage_of(said.id), 0),
        };
        let mut sent = 1;
        if !said.is_person {
            let is_own = place.is_none() && answered.is_none();
            let of_sender =
                Place { lineage, hops, at: said.at, number: self.heard, is_own, is_new: false, sent: 0 };
            let mut of_sender = place.unwrap_or(of_sender);
            of_sender.sent = of_sender.sent.saturating_add(1);
            sent = of_sender.sent;
            if of_sender.is_own {
                (of_sender.at, of_sender.number) = (said.at, self.heard);
            }
            self.places.insert(said.sender.to_owned(), of_sender);
        }
        let one = self.lineages.entry(lineage).or_insert_with(|| Lineage::begun(said));
        one.id = lineage;
        let cause = one.take(said, hops, sent, policy);
        let before = one.state;
        if one.judge(cause, policy) {
            let ending = (one.state == LineageState::Running).then_some(Ending::Calm);
            self.news.push(News { lineage: one.clone(), ending });
        }
        debug_assert!(before != LineageState::Ended, "a lineage that has ended is not followed");
        self.changed.insert(lineage, None);
        self.deliver(said, lineage, hops, policy);
        self.bound();
        (lineage, hops)
    }

    /// Notes whom a message was sent to. An answer returns to who asked: it goes on from where it was, so that an agent may
    /// ask for the same thing as often as it needs to.
    fn deliver(&mut self, said: &Spoken<'_>, lineage: LineageId, hops: u32, policy: &LoopPolicy) {
        let place =
            Place { lineage, hops, at: said.at, number: self.heard, is_own: false, is_new: false, sent: 0 };
        match said.reach {
            _ if said.answers.is_some() => {}
            Reach::Everyone if !policy.broadcasts && !said.is_person => {}
            Reach::These(agents) | Reach::Members(agents) => {
                for agent in agents.iter().filter(|agent| *agent != said.sender) {
                    self.places.insert(agent.clone(), place.clone());
                }
            }
            Reach::Everyone => {
                self.everyone.retain(|(sender, _)| sender != said.sender);
                if self.everyone.len() >= 2 {
                    self.everyone.pop_front();
                }
                self.everyone.push_back((said.sender.to_owned(), place));
            }
        }
        if said.is_request {
            if self.asked.len() >= REQUESTS {
                self.asked.pop_front();
            }
            self.asked.push_back(Asked { id: said.id, lineage, hops, at: said.at });
        }
    }

    /// Notes that an agent was given work. Like a message, it continues the lineage of whoever gave it, or begins one.
    /// Work from the lineage that the agent is in changes nothing.
    pub fn give(&mut self, work: &GivenWork<'_>, policy: &LoopPolicy) {
        if work.giver == work.agent {
            return;
        }
        let of_giver = if work.is_person { None } else { self.place(work.giver, work.at, policy) };
        let lineage = of_giver.as_ref().map(|place| place.lineage);
        if lineage.is_some() && self.latest(work.agent).map(|place| place.lineage) == lineage {
            return;
        }
        self.heard += 1;
        let hops = of_giver.map_or(0, |place| place.hops.saturating_add(u32::from(!place.is_own)));
        let (is_new, number) = (lineage.is_none(), self.heard);
        let lineage = lineage.unwrap_or_else(|| Uuid::nil().into());
        let place = Place { lineage, hops, at: work.at, number, is_own: false, is_new, sent: 0 };
        self.places.insert(work.agent.to_owned(), place);
        self.bound();
    }

    /// Returns where an agent is, whenever that was.
    fn latest(&self, agent: &str) -> Option<&Place> {
        let to_all = self.everyone.iter().filter(|(sender, _)| sender != agent).map(|(_, place)| place);
        // The agent's copy of a message to everybody counts the messages that it has sent since.
        to_all.chain(self.places.get(agent)).max_by_key(|place| place.number)
    }

    /// Whether a message of this agent may continue a lineage: a stopped one only if the agent has sent messages in it.
    /// Messages of all others begin a new one.
    fn goes_on(&self, lineage: LineageId, agent: &str) -> bool {
        self.lineages
            .get(&lineage)
            .is_none_or(|one| one.state != LineageState::Stopped || one.agents.contains(agent))
    }

    /// Returns the place that an agent speaks from.
    fn place(&self, agent: &str, at: Timestamp, policy: &LoopPolicy) -> Option<Place> {
        let place = self.latest(agent).filter(|place| !place.is_new)?;
        let is_stopped =
            self.lineages.get(&place.lineage).is_some_and(|one| one.state == LineageState::Stopped);
        let holds = if is_stopped {
            // Waiting does not end it; and whoever began it may begin something else.
            !place.is_own && self.goes_on(place.lineage, agent)
        } else {
            place.at + window(policy) >= at
        };
        holds.then(|| place.clone())
    }

    /// Returns the agents that may not send as they like: those whose last message is of a lineage that is slowed or stopped.
    #[must_use]
    pub fn held(&self, policy: &LoopPolicy) -> Vec<Hold> {
        let mut held = Vec::new();
        for one in self.lineages.values() {
            let action = match one.state {
                LineageState::Slowed => LoopAction::Slow,
                LineageState::Stopped => LoopAction::Stop,
                _ => continue,
            };
            for agent in &one.agents {
                let Some(place) = self.latest(agent) else { continue };
                // Of a storm, whoever began it is held; of a stopped lineage it may begin another.
                if place.lineage != one.id || place.is_own && action == LoopAction::Stop {
                    continue;
                }
                let pace = TimeDelta::seconds(i64::from(policy.slow_seconds));
                let hold =
                    Hold { agent: agent.clone(), lineage: one.id, action, next_at: one.last_at + pace };
                held.push(hold);
            }
        }
        held
    }

    /// Forgets everything that is too long ago, and ends stopped lineages that all agents have left.
    pub fn tidy(&mut self, now: Timestamp, policy: &LoopPolicy) {
        let held: BTreeSet<LineageId> = self.held(policy).into_iter().map(|hold| hold.lineage).collect();
        let ids: Vec<LineageId> = self.lineages.keys().copied().collect();
        for id in ids {
            let Some(one) = self.lineages.get(&id) else { continue };
            let is_found = matches!(one.state, LineageState::Told | LineageState::Slowed);
            let ending = match one.state {
                LineageState::Stopped if !held.contains(&id) => Some(Ending::Left),
                LineageState::Stopped if one.last_at + TimeDelta::days(STOPPED_DAYS) <= now => {
                    Some(Ending::Expired)
                }
                LineageState::Stopped => continue,
                _ if one.last_at + window(policy) >= now => continue,
                _ => is_found.then_some(Ending::Calm),
            };
            self.end(id, ending);
        }
        let lineages = &self.lineages;
        let is_recent = |lineage: &LineageId, at: Timestamp| {
            at + window(policy) >= now
                || lineages.get(lineage).is_some_and(|one| one.state == LineageState::Stopped)
        };
        self.places.retain(|_, place| is_recent(&place.lineage, place.at));
        self.everyone.retain(|(_, place)| is_recent(&place.lineage, place.at));
        self.asked.retain(|asked| is_recent(&asked.lineage, asked.at));
    }

    /// Ends a lineage. If it was stopped, the talk forgets that agents were sent messages of it, and its requests.
    fn end(&mut self, id: LineageId, ending: Option<Ending>) {
        let Some(mut one) = self.lineages.remove(&id) else { return };
        let was_stopped = one.state == LineageState::Stopped;
        one.state = if was_stopped { LineageState::Ended } else { LineageState::Running };
        if was_stopped {
            self.places.retain(|_, place| place.lineage != id);
            self.everyone.retain(|(_, place)| place.lineage != id);
            self.asked.retain(|asked| asked.lineage != id);
        }
        self.news.extend(ending.map(|ending| News { lineage: one.clone(), ending: Some(ending) }));
        self.changed.insert(id, Some(one));
    }

    /// Lets a lineage go on; returns whether it is followed and was told of, slowed or stopped.
    pub fn release(&mut self, id: LineageId) -> bool {
        let Some(one) = self.lineages.get_mut(&id) else { return false };
        if one.state == LineageState::Running {
            return false;
        }
        one.release();
        self.news.push(News { lineage: one.clone(), ending: Some(Ending::Released) });
        self.changed.insert(id, None);
        true
    }

    /// Lets everything go on and forgets it, because nobody looks for loops any more.
    pub fn close(&mut self) {
        let ids: Vec<LineageId> = self.lineages.keys().copied().collect();
        for id in ids {
            self.release(id);
        }
        let changed = self.take_changed().into_iter().map(|one| (one.id, Some(one))).collect();
        *self = Self { changed, news: self.take_news(), ..Self::default() };
    }

    /// Returns when [`Self::tidy`] has something to do, if nothing is heard until then.
    #[must_use]
    pub fn due_at(&self, policy: &LoopPolicy) -> Option<Timestamp> {
        let least = TimeDelta::seconds(1);
        let of_lineages = self.lineages.values().map(|one| match one.state {
            LineageState::Stopped => one.last_at + TimeDelta::days(STOPPED_DAYS),
            _ => one.last_at + window(policy) + least,
        });
        let of_places = self.places.values().chain(self.everyone.iter().map(|(_, place)| place));
        let of_places = of_places.filter(|place| !self.lineages.contains_key(&place.lineage));
        of_lineages.chain(of_places.map(|place| place.at + window(policy) + least)).min()
    }

    /// Keeps the size in its bounds.
    fn bound(&mut self) {
        let is_stopped = |lineages: &BTreeMap<LineageId, Lineage>, id: &LineageId| {
            lineages.get(id).is_some_and(|one| one.state == LineageState::Stopped)
        };
        while self.places.len() > AGENTS {
            let oldest = self
                .places
                .iter()
                .min_by_key(|(_, place)| (is_stopped(&self.lineages, &place.lineage), place.number))
                .map(|(agent, _)| agent.clone());
            let Some(agent) = oldest else { return };
            self.places.remove(&agent);
        }
        while self.lineages.len() > LINEAGES {
            let oldest = self
                .lineages
                .values()
                .min_by_key(|one| (one.state != LineageState::Running, one.last_at))
                .map(|one| (one.id, one.state));
            let Some((id, state)) = oldest else { return };
            self.end(id, (state != LineageState::Running).then_some(Ending::Expired));
        }
    }
}

fn window(policy: &LoopPolicy) -> TimeDelta {
    TimeDelta::seconds(i64::from(policy.window_seconds))
}
