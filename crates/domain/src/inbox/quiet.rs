//! Quiet hours: a daily stretch of local time in which nothing wakes an agent.

use chrono::{DurationRound as _, TimeDelta, Timelike as _};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::refusal::{Code, Refusal};

/// Minutes searched for the end: a day of quiet hours, and the longest change of clocks.
const SEARCH_MINUTES: i64 = 49 * 60;

/// A daily stretch of local time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QuietHours {
    /// Local time at which they begin, `HH:MM`.
    #[schema(example = "22:00")]
    pub from: String,
    /// Local time at which they end; before `from` for hours that include midnight.
    #[schema(example = "07:00")]
    pub to: String,
    /// Time zone by its name in the IANA database; defaults to `UTC`.
    #[serde(default = "utc")]
    #[schema(example = "Europe/Berlin")]
    pub time_zone: String,
    /// Agents and roles (`role:…`) that may wake in these hours too, if they may wake at all.
    #[serde(default)]
    pub except: Vec<String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Parses `HH:MM` as minutes since midnight.
pub(crate) fn minutes(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, most: u32| {
        (digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse::<u32>().ok())
            .flatten()
            .filter(|number| *number <= most)
    };
    Some(number(hour, 23)? * 60 + number(minute, 59)?)
}

impl QuietHours {
    /// Checks hours that an agent sent.
    ///
    /// # Errors
    /// [`Code::InvalidRequest`]: a time or the zone is unknown, or they last no time.
    pub fn check(&self) -> Result<(), Refusal> {
        let fault = |kind: &str, message: String| {
            Err(Refusal::field(Code::InvalidRequest, "quiet_hours", kind, message))
        };
        for time in [&self.from, &self.to] {
            if minutes(time).is_none() {
                return fault("value", format!("`{time}` is no time of day; write it as `22:00`."));
            }
        }
        if self.from == self.to {
            let message = "`quiet_hours` begin and end at the same time; to be left alone for good, set `may_wake` to `[]`.";
            return fault("value", message.to_owned());
        }
        if self.time_zone.parse::<Tz>().is_err() {
            let message = format!("`{}` is no time zone, such as `Europe/Berlin` or `UTC`.", self.time_zone);
            return fault("value", message);
        }
        Ok(())
    }

    /// Returns whether a moment is in them.
    #[must_use]
    pub fn contain(&self, at: Timestamp) -> bool {
        // Settings are checked before they are stored.
        let (Some(from), Some(to), Ok(zone)) =
            (minutes(&self.from), minutes(&self.to), self.time_zone.parse::<Tz>())
        else {
            return false;
        };
        let local = at.with_timezone(&zone);
        let minute = local.hour() * 60 + local.minute();
        if from < to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }

    /// Returns the first whole minute after a moment that is not in them, whatever the clocks do in between.
    #[must_use]
    pub fn end_after(&self, at: Timestamp) -> Timestamp {
        let minute = TimeDelta::minutes(1);
        let first = at.duration_trunc(minute).unwrap_or(at) + minute;
        let later = (0..SEARCH_MINUTES).map(|count| first + TimeDelta::minutes(count));
        // Hours shorter than a day end within the search.
        later.into_iter().find(|at| !self.contain(*at)).unwrap_or(first)
    }
}
