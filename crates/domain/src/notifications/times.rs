//! When a contact point is told: after a while, at the next digest, not in quiet hours.

use chrono::{DurationRound as _, TimeDelta, Timelike as _};
use chrono_tz::Tz;

use super::{ContactSettings, Digest, Topic};
use crate::clock::{Timestamp, plus_seconds};
use crate::inbox::quiet::minutes;

/// Minutes searched for the next digest: a day, and the longest change of clocks.
const SEARCH_MINUTES: i64 = 49 * 60;

/// Something that a person is to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occasion<'a> {
    /// Its topic.
    pub topic: Topic,
    /// The agent that it comes from.
    pub agent: Option<&'a str>,
    /// When it lapses.
    pub deadline: Option<Timestamp>,
}

impl ContactSettings {
    /// Returns when the contact point is told of something that has waited since `now`; `None` if it is not told of this topic.
    #[must_use]
    pub fn due(&self, occasion: Occasion<'_>, now: Timestamp) -> Option<Timestamp> {
        let earliest = plus_seconds(now, self.after_seconds);
        let at = if self.topics.contains(&occasion.topic) {
            earliest
        } else {
            let digest = self.digest.as_ref().filter(|digest| digest.topics.contains(&occasion.topic))?;
            let next = digest.next_after(earliest);
            // Told at the digest, it would have lapsed.
            if occasion.deadline.is_some_and(|deadline| deadline <= next) { earliest } else { next }
        };
        Some(self.quiet_until(occasion.agent, at).unwrap_or(at))
    }

    /// Returns when the contact point is reminded of something that it has been told of; `None` if it is not.
    #[must_use]
    pub fn reminded(&self, occasion: Occasion<'_>, told: Timestamp) -> Option<Timestamp> {
        let at = plus_seconds(told, self.remind_seconds?);
        let is_collected = !self.topics.contains(&occasion.topic);
        let at = match self.digest.as_ref().filter(|_| is_collected) {
            Some(digest) => digest.next_after(at),
            None => at,
        };
        Some(self.quiet_until(occasion.agent, at).unwrap_or(at))
    }

    /// Returns the end of the quiet hours at a moment; `None` if it is in none, or they do not hold for this agent.
    #[must_use]
    pub fn quiet_until(&self, agent: Option<&str>, at: Timestamp) -> Option<Timestamp> {
        let hours = self.quiet_hours.as_ref().filter(|hours| hours.contain(at))?;
        let is_excepted = agent.is_some_and(|agent| hours.except.iter().any(|name| name == agent));
        (!is_excepted).then(|| hours.end_after(at))
    }
}

impl Digest {
    /// Returns the first time of a digest after a moment, whatever the clocks do in between: one that a change of clocks leaves
    /// out is told after the change.
    #[must_use]
    pub fn next_after(&self, at: Timestamp) -> Timestamp {
        // Settings are checked before they are stored.
        let zone = self.time_zone.parse::<Tz>().unwrap_or(Tz::UTC);
        let times: Vec<u32> = self.at.iter().filter_map(|time| minutes(time)).collect();
        let minute = TimeDelta::minutes(1);
        let first = at.duration_trunc(minute).unwrap_or(at);
        let local = |at: Timestamp| {
            let local = at.with_timezone(&zone);
            (local.date_naive(), local.hour() * 60 + local.minute())
        };
        let mut before = local(first);
        for count in 1..=SEARCH_MINUTES {
            let moment = first + TimeDelta::minutes(count);
            let (date, now) = local(moment);
            let (last_date, last) = before;
            let passed = |time: u32| if date == last_date { last < time && time <= now } else { time <= now };
            if times.iter().any(|time| passed(*time)) {
                return moment;
            }
            before = (date, now);
        }
        first + TimeDelta::minutes(SEARCH_MINUTES)
    }
}
