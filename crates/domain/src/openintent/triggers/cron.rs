//! Cron expressions (RFC-0017 §2.1): five fields, evaluated in the local time of a time zone.
//!
//! Minute, hour, day of the month, month, day of the week; `*`, ranges, steps, lists, and the English names of months
//! and days. As usual, if both day fields are restricted, a day matches when either does.
//!
//! **Clock changes.** A local time skipped that day is due at the first moment after the gap; one that occurs twice
//! is due the first time only. An expression with an open hour (`*/5 * * * *`) means a pace, not a time of day: it
//! follows local time, so that it neither stops during the repeated hour nor catches up after a gap.

use chrono::{
    DateTime, Datelike as _, Days, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _,
    Timelike as _, Utc,
};
use chrono_tz::Tz;

use crate::clock::Timestamp;

/// Search limit in days: from one 29 February on a Sunday to the next it can be forty years.
const HORIZON_DAYS: usize = 41 * 366;

/// Longest gap in the local time of any zone, in minutes: a whole day, when Samoa crossed the date line.
const GAP_MINUTES: i64 = 25 * 60;

/// Maximum length of an expression, in bytes: sixty minutes one by one are 170.
const EXPRESSION_BYTES: usize = 500;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Named expressions.
const NAMED: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A parsed expression; each field is a bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether the day field begins with a star: then a day must match both day fields.
    any_day: bool,
    /// The same for the day of the week.
    any_weekday: bool,
    /// Whether the hour field begins with a star, so that the expression means a pace.
    pace: bool,
}

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// Describes the fault as the end of a sentence that begins with the expression's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_BYTES {
            return Err(format!("is longer than {EXPRESSION_BYTES} bytes"));
        }
        let lower = text.trim().to_ascii_lowercase();
        let named = NAMED.iter().find(|(name, _)| *name == lower).map(|(_, meant)| *meant);
        let fields: Vec<&str> = named.unwrap_or(&lower).split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!(
                "has {} fields; give five: minute, hour, day of the month, month, day of the week",
                fields.len()
            ));
        };
        let mut weekdays = field("day of the week", weekday, 0, 7, &WEEKDAYS)?;
        // Sunday is 0 and 7.
        if weekdays & (1 << 7) != 0 {
            weekdays = (weekdays | 1) & !(1 << 7);
        }
        let cron = Self {
            minutes: field("minute", minute, 0, 59, &[])?,
            hours: field("hour", hour, 0, 23, &[])?,
            days: field("day of the month", day, 1, 31, &[])?,
            months: field("month", month, 1, 12, &MONTHS)?,
            weekdays,
            any_day: day.starts_with('*'),
            any_weekday: weekday.starts_with('*'),
            pace: hour.starts_with('*'),
        };
        if cron.comes() { Ok(cron) } else { Err("names a day that never comes".to_owned()) }
    }

    /// Returns whether the expression matches any day at all.
    fn comes(&self) -> bool {
        if !self.any_day && !self.any_weekday {
            return true;
        }
        // A leap year contains every possible day.
        let longest = |month: u32| NaiveDate::from_ymd_opt(2024, month, 31).map_or(30, |_long| 31);
        (1..=12).filter(|month| has(self.months, *month)).any(|month| {
            let last = if month == 2 { 29 } else { longest(month) };
            (1..=last).any(|day| has(self.days, day))
        })
    }

    /// Returns the first due time after `after`.
    #[must_use]
    pub fn next_after(&self, zone: Tz, after: Timestamp) -> Option<Timestamp> {
        self.after(zone, after).next()
    }

    /// Returns all due times after `after` in order; the iterator examines each day only once.
    #[must_use]
    pub fn after(&self, zone: Tz, after: Timestamp) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        if self.pace {
            let next = move |at: &Timestamp| self.pace_after(zone, *at);
            return Box::new(std::iter::successors(self.pace_after(zone, after), next));
        }
        // Start with the day before: a time skipped there may be due today.
        let first = after.with_timezone(&zone).date_naive().checked_sub_days(Days::new(1));
        let days = first.into_iter().flat_map(|day| day.iter_days().take(HORIZON_DAYS));
        let times = days.filter(|day| self.on(*day)).flat_map(|day| self.times(day));
        let mut last = after;
        Box::new(times.filter_map(move |local| {
            last = instant(zone, local).filter(|at| *at > last)?;
            Some(last)
        }))
    }

    /// Returns the last due time at or before `until`.
    #[must_use]
    pub fn latest(&self, zone: Tz, until: Timestamp) -> Option<Timestamp> {
        self.until(zone, until).next()
    }

    /// Returns all due times at or before `until`, latest first.
    #[must_use]
    pub fn until(&self, zone: Tz, until: Timestamp) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        if self.pace {
            let before = move |at: &Timestamp| self.pace_until(zone, *at - TimeDelta::minutes(1));
            return Box::new(std::iter::successors(self.pace_until(zone, until), before));
        }
        let last = until.with_timezone(&zone).date_naive().checked_add_days(Days::new(1));
        let days = std::iter::successors(last, NaiveDate::pred_opt).take(HORIZON_DAYS);
        let times =
            days.filter(|day| self.on(*day)).flat_map(|day| self.times(day).rev().collect::<Vec<_>>());
        let mut first = until + TimeDelta::microseconds(1);
        Box::new(times.filter_map(move |local| {
            first = instant(zone, local).filter(|at| *at < first)?;
            Some(first)
        }))
    }

    fn pace_after(&self, zone: Tz, after: Timestamp) -> Option<Timestamp> {
        let mut at = minute_of(after)? + TimeDelta::minutes(1);
        let end = after.checked_add_days(Days::new(HORIZON_DAYS as u64))?;
        while at < end {
            let local = at.with_timezone(&zone).naive_local();
            let next = at + TimeDelta::minutes(1);
            if !self.on(local.date()) {
                // Never go back: when clocks go back over midnight, the previous day occurs again.
                at = local.date().succ_opt().and_then(|day| start_of(zone, day))?.max(next);
            } else if self.at(local) {
                return Some(at);
            } else {
                at = next;
            }
        }
        None
    }

    fn pace_until(&self, zone: Tz, until: Timestamp) -> Option<Timestamp> {
        let mut at = minute_of(until)?;
        let end = until.checked_sub_days(Days::new(HORIZON_DAYS as u64))?;
        while at > end {
            let local = at.with_timezone(&zone).naive_local();
            let before = at - TimeDelta::minutes(1);
            if !self.on(local.date()) {
                at = (start_of(zone, local.date())? - TimeDelta::minutes(1)).min(before);
            } else if self.at(local) {
                return Some(at);
            } else {
                at = before;
            }
        }
        None
    }

    /// Returns whether the expression matches this day.
    fn on(&self, day: NaiveDate) -> bool {
        let by_day = has(self.days, day.day());
        let by_weekday = has(self.weekdays, day.weekday().num_days_from_sunday());
        let either = !self.any_day && !self.any_weekday;
        has(self.months, day.month()) && if either { by_day || by_weekday } else { by_day && by_weekday }
    }

    /// Returns whether the expression matches this time of day.
    fn at(&self, local: NaiveDateTime) -> bool {
        has(self.hours, local.hour()) && has(self.minutes, local.minute())
    }

    /// Returns the due local times on this day.
    fn times(&self, day: NaiveDate) -> impl DoubleEndedIterator<Item = NaiveDateTime> + use<'_> {
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        let minutes = |hour| (0..60).filter(|minute| has(self.minutes, *minute)).map(move |m| (hour, m));
        hours.flat_map(minutes).filter_map(move |(hour, minute)| day.and_hms_opt(hour, minute, 0))
    }
}

/// Returns the first moment with this local time, or the first one after the gap that skips it.
fn instant(zone: Tz, local: NaiveDateTime) -> Option<Timestamp> {
    let shown = |minutes| match zone.from_local_datetime(&(local + TimeDelta::minutes(minutes))) {
        MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => Some(at.with_timezone(&Utc)),
        MappedLocalTime::None => None,
    };
    (0..GAP_MINUTES).find_map(shown)
}

fn start_of(zone: Tz, day: NaiveDate) -> Option<Timestamp> {
    instant(zone, day.and_hms_opt(0, 0, 0)?)
}

/// Truncates a time to the minute.
fn minute_of(at: Timestamp) -> Option<Timestamp> {
    DateTime::from_timestamp(at.timestamp().div_euclid(60) * 60, 0)
}

fn has(bits: u64, place: u32) -> bool {
    bits & (1 << place) != 0
}

/// Parses one field.
fn field(name: &str, text: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let wrong = |item: &str, why: &str| format!("has `{item}` as its {name}, which {why}");
    let number = |item: &str, word: &str| -> Result<u32, String> {
        let place = names.iter().position(|known| *known == word);
        let named = place.and_then(|place| u32::try_from(place).ok()).map(|place| place + least);
        let given =
            named.or_else(|| word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok()).flatten());
        given
            .filter(|n| (least..=most).contains(n))
            .ok_or_else(|| wrong(item, &format!("is not from {least} to {most}")))
    };
    let mut bits = 0;
    for item in text.split(',') {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (first, last) = if range == "*" {
            // 7 is Sunday again.
            (least, if names.len() == 7 { most - 1 } else { most })
        } else if let Some((first, last)) = range.split_once('-') {
            let (first, last) = (number(item, first)?, number(item, last)?);
            // A week that ends on Sunday.
            (first, if names.len() == 7 && last == 0 && first > 0 { 7 } else { last })
        } else {
            let first = number(item, range)?;
            (first, if step.is_some() { most } else { first })
        };
        if first > last {
            return Err(wrong(item, "goes backwards"));
        }
        let step: u32 = match step {
            None => 1,
            Some(step) => step
                .parse()
                .ok()
                .filter(|n| (1..=most).contains(n))
                .ok_or_else(|| wrong(item, &format!("has a step that is not from 1 to {most}")))?,
        };
        let mut place = first;
        while place <= last {
            bits |= 1 << place;
            place += step;
        }
    }
    Ok(bits)
}
