//! Cron expressions (RFC-0017 §2.1): five fields, evaluated by the clock on the wall of a time zone.
//!
//! Minute, hour, day of the month, month, day of the week; `*`, ranges, steps, lists, and the English names of months and
//! days. As everywhere, a day matches when either of the two day fields does, if both say something.
//!
//! **When clocks change.** A time that the wall does not show that day is due at the first moment after the gap; one that
//! it shows twice is due the first time only. An expression that leaves the hour open (`*/5 * * * *`) means a pace and not
//! a time of day: it goes by what the wall shows, so that it neither stops during the repeated hour nor catches up after a
//! gap.

use chrono::{
    DateTime, Datelike as _, Days, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _,
    Timelike as _, Utc,
};
use chrono_tz::Tz;

use crate::clock::Timestamp;

/// Days within which an expression that ever comes does come: from one 29 February that is a Sunday to the next it can be
/// forty years.
const HORIZON_DAYS: usize = 41 * 366;

/// Minutes of the longest gap that any zone's wall has had: a whole day, when Samoa crossed the date line.
const GAP_MINUTES: i64 = 25 * 60;

/// Bytes of an expression: sixty minutes one by one are 170.
const EXPRESSION_BYTES: usize = 500;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Expressions that have a name.
const NAMED: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// An expression that was understood. Each field is a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The field of days begins with a star: then the other one decides too.
    any_day: bool,
    /// The same of days of the week.
    any_weekday: bool,
    /// The hour begins with a star: it means a pace.
    pace: bool,
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with its name.
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

    /// Whether there is any day that it names.
    fn comes(&self) -> bool {
        if !self.any_day && !self.any_weekday {
            return true;
        }
        // A leap year has every day that there is.
        let longest = |month: u32| NaiveDate::from_ymd_opt(2024, month, 31).map_or(30, |_long| 31);
        (1..=12).filter(|month| has(self.months, *month)).any(|month| {
            let last = if month == 2 { 29 } else { longest(month) };
            (1..=last).any(|day| has(self.days, day))
        })
    }

    /// The first time that is due after `after`.
    #[must_use]
    pub fn next_after(&self, zone: Tz, after: Timestamp) -> Option<Timestamp> {
        self.after(zone, after).next()
    }

    /// All times that are due after `after`, one after the other: what takes many of them looks at each day once.
    #[must_use]
    pub fn after(&self, zone: Tz, after: Timestamp) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        if self.pace {
            let next = move |at: &Timestamp| self.pace_after(zone, *at);
            return Box::new(std::iter::successors(self.pace_after(zone, after), next));
        }
        // The day before: what is missing there may be due today.
        let first = after.with_timezone(&zone).date_naive().checked_sub_days(Days::new(1));
        let days = first.into_iter().flat_map(|day| day.iter_days().take(HORIZON_DAYS));
        let times = days.filter(|day| self.on(*day)).flat_map(|day| self.times(day));
        let mut last = after;
        Box::new(times.filter_map(move |local| {
            last = instant(zone, local).filter(|at| *at > last)?;
            Some(last)
        }))
    }

    /// The last time that was due at or before `until`.
    #[must_use]
    pub fn latest(&self, zone: Tz, until: Timestamp) -> Option<Timestamp> {
        self.until(zone, until).next()
    }

    /// All times that were due at or before `until`, the latest first.
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
                // Never back: a wall that goes back over midnight shows the day before again.
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

    /// Whether it names this day.
    fn on(&self, day: NaiveDate) -> bool {
        let by_day = has(self.days, day.day());
        let by_weekday = has(self.weekdays, day.weekday().num_days_from_sunday());
        let either = !self.any_day && !self.any_weekday;
        has(self.months, day.month()) && if either { by_day || by_weekday } else { by_day && by_weekday }
    }

    /// Whether it names this time of the day.
    fn at(&self, local: NaiveDateTime) -> bool {
        has(self.hours, local.hour()) && has(self.minutes, local.minute())
    }

    /// What the wall shows when it is due on this day.
    fn times(&self, day: NaiveDate) -> impl DoubleEndedIterator<Item = NaiveDateTime> + use<'_> {
        let hours = (0..24).filter(|hour| has(self.hours, *hour));
        let minutes = |hour| (0..60).filter(|minute| has(self.minutes, *minute)).map(move |m| (hour, m));
        hours.flat_map(minutes).filter_map(move |(hour, minute)| day.and_hms_opt(hour, minute, 0))
    }
}

/// The moment at which the wall first shows this, or the first one after it would have.
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

/// The minute that a moment lies in.
fn minute_of(at: Timestamp) -> Option<Timestamp> {
    DateTime::from_timestamp(at.timestamp().div_euclid(60) * 60, 0)
}

fn has(bits: u64, place: u32) -> bool {
    bits & (1 << place) != 0
}

/// Reads one field.
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
