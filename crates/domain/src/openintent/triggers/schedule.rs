//! Schedules (RFC-0017 §2): due times of a trigger, and the handling of missed ones.

use chrono::TimeDelta;
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use super::Condition;
use super::cron::Cron;
use crate::clock::{Timestamp, plus_seconds};
use crate::limits::{DURATION_SECONDS, TRIGGER_LEAST_SECONDS};
use crate::refusal::{Code, Refusal};

/// Delay in seconds after which a due time counts as missed; restarts, and sweeps under load, cause delays up to this.
pub const MISSED_SECONDS: u32 = 60;

/// Maximum number of missed times that `all` fires for, the latest ones: more intents at once are not useful.
pub const CATCH_UP: usize = 100;

/// Maximum number of missed times that are counted.
pub const COUNTED: u32 = 1_000;

/// Handling of missed due times (RFC-0017 §2.2 leaves it to the implementation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = TriggerMissed)]
pub enum Missed {
    /// Skip them.
    Skip,
    /// Create one intent for all of them, as of the latest.
    #[default]
    Latest,
    /// Create an intent for each of the latest hundred.
    All,
}

/// A parsed schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    timing: Timing,
    starts_at: Option<Timestamp>,
    ends_at: Option<Timestamp>,
    missed: Missed,
}

#[derive(Debug, Clone, PartialEq)]
enum Timing {
    Cron(Cron, Tz),
    /// Interval in seconds, counted from a time.
    Every(i64, Timestamp),
    Once(Timestamp),
}

/// Actions at a due time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Times to skip, if any.
    pub skipped: Option<Skipped>,
    /// Time to create an intent for.
    pub fire: Option<Timestamp>,
    /// Next due time.
    pub next: Option<Timestamp>,
}

/// Due times that are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// First skipped time.
    pub from: Timestamp,
    /// Number of skipped times; [`COUNTED`] means at least that many.
    pub count: u32,
}

impl Schedule {
    /// Parses a condition; `None` if it has no schedule, and intervals are counted from `born`.
    ///
    /// # Errors
    /// An invalid expression, zone, interval or window.
    pub fn of(condition: &Condition, born: Timestamp) -> Result<Option<Self>, Refusal> {
        let fault = |member: &str, kind: &str, message: String| {
            Err(Refusal::field(Code::Unprocessable, member, kind, message))
        };
        let zone = condition.timezone.as_deref().unwrap_or("UTC");
        let Ok(zone) = zone.parse::<Tz>() else {
            let message = "`condition.timezone` is no time zone of the IANA database such as Europe/Berlin.";
            return fault("condition", "timezone", message.to_owned());
        };
        let (starts_at, ends_at) = (condition.starts_at, condition.ends_at);
        if starts_at.zip(ends_at).is_some_and(|(start, end)| end < start) {
            return fault("condition", "window", "`condition.ends_at` lies before `starts_at`.".to_owned());
        }
        // RFC-0017 §2.3: `at` takes precedence; a window of zero length is a single time.
        let moment = starts_at.filter(|start| Some(*start) == ends_at && condition.cron.is_none());
        let timing = if let Some(at) = condition.at.or(moment) {
            Timing::Once(at)
        } else if let Some(text) = &condition.cron {
            match Cron::parse(text) {
                Ok(cron) => Timing::Cron(cron, zone),
                Err(why) => return fault("condition", "cron", format!("`condition.cron` {why}.")),
            }
        } else if let Some(seconds) = condition.every_seconds {
            if !(TRIGGER_LEAST_SECONDS..=DURATION_SECONDS).contains(&seconds) {
                let message = format!(
                    "`condition.every_seconds` must be a number from {TRIGGER_LEAST_SECONDS} to {DURATION_SECONDS}."
                );
                return fault("condition", "range", message);
            }
            Timing::Every(i64::from(seconds), starts_at.unwrap_or(born))
        } else {
            return Ok(None);
        };
        let once = matches!(timing, Timing::Once(_));
        let (starts_at, ends_at) = if once { (None, None) } else { (starts_at, ends_at) };
        Ok(Some(Self { timing, starts_at, ends_at, missed: condition.missed.unwrap_or_default() }))
    }

    /// Returns whether it is due only once.
    #[must_use]
    pub fn is_once(&self) -> bool {
        matches!(self.timing, Timing::Once(_))
    }

    /// Returns the first due time after `after`.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.after(after).next()
    }

    /// Returns all due times after `after`, in order.
    fn after(&self, after: Timestamp) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        let just_before = |start: Timestamp| start - TimeDelta::microseconds(1);
        let after = self.starts_at.map_or(after, |start| after.max(just_before(start)));
        let times: Box<dyn Iterator<Item = Timestamp>> = match &self.timing {
            Timing::Cron(cron, zone) => cron.after(*zone, after),
            Timing::Every(seconds, origin) => {
                let passed = intervals(*origin, *seconds, after);
                let first = passed.map(|passed| (passed + 1).max(i64::from(self.starts_at.is_none())));
                let times = first.into_iter().flat_map(|first| first..);
                Box::new(times.map_while(|times| every(*origin, *seconds, times)))
            }
            Timing::Once(at) => Box::new(Some(*at).filter(|at| *at > after).into_iter()),
        };
        Box::new(times.take_while(|next| self.ends_at.is_none_or(|end| *next <= end)))
    }

    /// Returns the last due time at or before `until`.
    #[must_use]
    pub fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        self.until(until).next()
    }

    /// Returns all due times at or before `until`, latest first.
    fn until(&self, until: Timestamp) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        let until = self.ends_at.map_or(until, |end| until.min(end));
        let times: Box<dyn Iterator<Item = Timestamp>> = match &self.timing {
            Timing::Cron(cron, zone) => cron.until(*zone, until),
            Timing::Every(seconds, origin) => {
                let first = i64::from(self.starts_at.is_none());
                let last = intervals(*origin, *seconds, until).filter(|passed| *passed >= first);
                let times = last.into_iter().flat_map(move |last| (first..=last).rev());
                Box::new(times.map_while(|times| every(*origin, *seconds, times)))
            }
            Timing::Once(at) => Box::new(Some(*at).filter(|at| *at <= until).into_iter()),
        };
        Box::new(times.take_while(|latest| self.starts_at.is_none_or(|start| *latest >= start)))
    }

    /// Returns the next action for a trigger due since `due`; remaining times are due again at once.
    #[must_use]
    pub fn step(&self, due: Timestamp, now: Timestamp) -> Step {
        let fire = match self.missed {
            Missed::Skip => {
                let still = now - TimeDelta::seconds(i64::from(MISSED_SECONDS));
                if due >= still { Some(due) } else { self.next_after(still).filter(|next| *next <= now) }
            }
            Missed::Latest => self.latest(now),
            Missed::All => self.until(now).take_while(|at| *at >= due).take(CATCH_UP).last(),
        };
        // A changed schedule may not contain the time that was due.
        let fire = fire.filter(|at| *at >= due);
        let skipped = self.count(due, fire.unwrap_or(now), fire.is_none());
        Step {
            skipped: (skipped > 0).then_some(Skipped { from: due, count: skipped }),
            fire,
            next: self.next_after(fire.unwrap_or(now)),
        }
    }

    /// Counts the due times from `from` to `end`, which itself only counts if `inclusive`.
    fn count(&self, from: Timestamp, end: Timestamp, inclusive: bool) -> u32 {
        let times = self.after(from - TimeDelta::microseconds(1));
        let within = times.take_while(|at| if inclusive { *at <= end } else { *at < end });
        u32::try_from(within.take(COUNTED as usize).count()).unwrap_or(COUNTED)
    }
}

/// Returns the number of whole intervals between two times; negative if the second is earlier.
fn intervals(origin: Timestamp, seconds: i64, at: Timestamp) -> Option<i64> {
    Some((at - origin).num_microseconds()?.div_euclid(seconds * 1_000_000))
}

/// Returns the time so many intervals after `origin`.
fn every(origin: Timestamp, seconds: i64, times: i64) -> Option<Timestamp> {
    let delta = TimeDelta::try_seconds(seconds.checked_mul(times.max(0))?)?;
    origin.checked_add_signed(delta).filter(|at| *at <= plus_seconds(Timestamp::MAX_UTC, 0))
}
