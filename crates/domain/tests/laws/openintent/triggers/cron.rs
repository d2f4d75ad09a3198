//! Cron expressions, compared with a slow and simple reference, and on days with clock changes.

use chrono::{DateTime, Datelike as _, TimeDelta, Timelike as _, Utc};
use chrono_tz::Tz;
use entente_domain::clock::{Timestamp, parse};
use entente_domain::openintent::triggers::cron::Cron;
use proptest::prelude::*;

fn time(text: &str) -> Timestamp {
    parse(text).unwrap()
}

fn zone(name: &str) -> Tz {
    name.parse().unwrap()
}

/// Returns the next due times in the zone's local time.
fn next(cron: &str, zone_name: &str, after: &str, times: usize) -> Vec<String> {
    let (cron, zone) = (Cron::parse(cron).unwrap(), zone(zone_name));
    let first = cron.next_after(zone, time(after));
    let due = std::iter::successors(first, |at| cron.next_after(zone, *at)).take(times);
    due.map(|at| at.with_timezone(&zone).format("%d %H:%M %:z").to_string()).collect()
}

#[test]
fn ordinary_expressions_mean_what_they_say() {
    let utc = |cron, after, times| next(cron, "UTC", after, times);
    assert_eq!(utc("0 9 * * MON-FRI", "2026-11-20T09:00:00Z", 2), ["23 09:00 +00:00", "24 09:00 +00:00"]);
    assert_eq!(
        utc("*/20 8,17 * * *", "2026-11-20T08:30:00Z", 3),
        ["20 08:40 +00:00", "20 17:00 +00:00", "20 17:20 +00:00"]
    );
    assert_eq!(
        utc("5/20 8 * * *", "2026-11-20T08:00:00Z", 3),
        ["20 08:05 +00:00", "20 08:25 +00:00", "20 08:45 +00:00"]
    );
    assert_eq!(utc("0 0 29 feb *", "2026-11-20T00:00:00Z", 1), ["29 00:00 +00:00"]);
    // A leading star requires both day fields: after 2088, no 29 February falls on a Sunday for forty years.
    assert_eq!(utc("0 0 29 2 */7", "2088-03-01T00:00:00Z", 1), ["29 00:00 +00:00"]);
    assert_eq!(utc("0 12 * * 7", "2026-11-20T00:00:00Z", 1), ["22 12:00 +00:00"]);
    assert_eq!(utc("0 12 * * fri-sun", "2026-11-20T13:00:00Z", 2), ["21 12:00 +00:00", "22 12:00 +00:00"]);
    assert_eq!(utc("@weekly", "2026-11-20T13:00:00Z", 1), ["22 00:00 +00:00"]);
    // Either of the two day fields, if both are restricted.
    assert_eq!(
        utc("0 0 13 * FRI", "2026-11-01T00:00:00Z", 3),
        ["06 00:00 +00:00", "13 00:00 +00:00", "20 00:00 +00:00"]
    );
    assert_eq!(utc("0 0 30 11 MON", "2026-11-22T00:00:00Z", 2), ["23 00:00 +00:00", "30 00:00 +00:00"]);
}

#[test]
fn a_time_that_the_wall_does_not_show_is_due_after_the_gap() {
    // On 29 March 2026 Berlin goes from 02:00 to 03:00.
    let berlin = |cron, times| next(cron, "Europe/Berlin", "2026-03-28T12:00:00Z", times);
    assert_eq!(berlin("30 2 * * *", 2), ["29 03:00 +02:00", "30 02:30 +02:00"]);
    assert_eq!(berlin("*/15 2 * * *", 3), ["29 03:00 +02:00", "30 02:00 +02:00", "30 02:15 +02:00"]);
    // A time that is due at three anyway is due once.
    assert_eq!(berlin("30 2,3 * * *", 3), ["29 03:00 +02:00", "29 03:30 +02:00", "30 02:30 +02:00"]);
    assert_eq!(berlin("0 2,3 * * *", 3), ["29 03:00 +02:00", "30 02:00 +02:00", "30 03:00 +02:00"]);
    // A day that begins at one o'clock, and a day that was skipped.
    assert_eq!(
        next("0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", 2),
        ["08 01:00 -04:00", "09 00:00 -04:00"]
    );
    assert_eq!(
        next("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 2),
        ["29 12:00 -10:00", "31 00:00 +14:00"]
    );
}

#[test]
fn a_time_that_the_wall_shows_twice_is_due_once() {
    // On 25 October 2026 Berlin goes from 03:00 back to 02:00.
    let berlin = |cron, times| next(cron, "Europe/Berlin", "2026-10-24T12:00:00Z", times);
    assert_eq!(berlin("30 2 * * *", 2), ["25 02:30 +02:00", "26 02:30 +01:00"]);
    assert_eq!(berlin("*/30 2 * * *", 3), ["25 02:00 +02:00", "25 02:30 +02:00", "26 02:00 +01:00"]);
}

#[test]
fn a_pace_keeps_its_pace() {
    let spring = next("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", 4);
    assert_eq!(spring, ["29 01:30 +01:00", "29 03:00 +02:00", "29 03:30 +02:00", "29 04:00 +02:00"]);
    let autumn = next("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 5);
    assert_eq!(
        autumn,
        ["25 02:30 +02:00", "25 02:00 +01:00", "25 02:30 +01:00", "25 03:00 +01:00", "25 03:30 +01:00"]
    );
    // If the clock goes back over midnight, the previous day appears again.
    let midnight = next("0 * * * *", "America/Havana", "2026-11-01T04:30:00Z", 3);
    assert_eq!(midnight, ["01 00:00 -05:00", "01 01:00 -05:00", "01 02:00 -05:00"]);
}

#[test]
fn what_is_no_expression_is_refused() {
    for (text, word) in [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("0 * * * * *", "has 6 fields"),
        ("60 * * * *", "not from 0 to 59"),
        ("* 24 * * *", "not from 0 to 23"),
        ("* * 0 * *", "not from 1 to 31"),
        ("* * * 13 *", "not from 1 to 12"),
        ("* * * * 8", "not from 0 to 7"),
        ("* * * * mo", "not from 0 to 7"),
        ("*/0 * * * *", "a step"),
        ("*/x * * * *", "a step"),
        ("5-1 * * * *", "goes backwards"),
        ("1,,2 * * * *", "not from"),
        ("-1 * * * *", "not from"),
        ("+1 * * * *", "not from"),
        ("* * * jan mon-tue-wed", "not from"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("@never", "has 1 fields"),
    ] {
        let why = Cron::parse(text).unwrap_err();
        assert!(why.contains(word), "{text}: {why}");
    }
    assert!(Cron::parse(&"0".repeat(1_000)).is_err());
}

/// Generates a field: its text, and the values that it stands for.
fn field(least: u32, most: u32) -> impl Strategy<Value = (String, Vec<u32>)> {
    prop_oneof![
        Just(("*".to_owned(), (least..=most).collect())),
        (least..=most).prop_map(|one| (one.to_string(), vec![one])),
        (least..=most, least..=most).prop_map(|(a, b)| {
            let (a, b) = (a.min(b), a.max(b));
            (format!("{a}-{b}"), (a..=b).collect())
        }),
        (1..=most)
            .prop_map(move |step| (format!("*/{step}"), (least..=most).step_by(step as usize).collect())),
        (least..=most, least..=most).prop_map(|(a, b)| (format!("{a},{b}"), vec![a, b])),
    ]
}

fn zones() -> impl Strategy<Value = Tz> {
    let names = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kathmandu",
        "Australia/Lord_Howe",
        "America/Havana",
    ];
    proptest::sample::select(names.to_vec()).prop_map(zone)
}

/// Generates a time in the forty years from 2000 on; later ones follow rules that may still change.
fn lately() -> impl Strategy<Value = Timestamp> {
    (946_684_800_i64..2_208_988_800).prop_map(|seconds| DateTime::from_timestamp(seconds, 0).unwrap())
}

proptest! {
    #[test]
    fn it_is_due_when_every_field_says_so(
        minute in field(0, 59), hour in field(0, 23), day in field(1, 31), month in field(1, 12), weekday in field(0, 6),
        after in lately(),
    ) {
        let text = format!("{} {} {} {} {}", minute.0, hour.0, day.0, month.0, weekday.0);
        let Ok(cron) = Cron::parse(&text) else { return Ok(()) };
        let either = !day.0.starts_with('*') && !weekday.0.starts_with('*');
        let due = |at: Timestamp| {
            let days = day.1.contains(&at.day());
            let weekdays = weekday.1.contains(&at.weekday().num_days_from_sunday());
            minute.1.contains(&at.minute()) && hour.1.contains(&at.hour()) && month.1.contains(&at.month())
                && if either { days || weekdays } else { days && weekdays }
        };
        let found = cron.next_after(Tz::UTC, after).unwrap();
        prop_assert!(found > after && due(found) && found.second() == 0);
        // No due time lies in between; for distant ones only the first days are checked.
        let minutes = ((found - after).num_minutes()).min(3_000);
        let start = after + TimeDelta::seconds(60 - i64::from(after.second()));
        for step in 0..minutes {
            let at = start + TimeDelta::minutes(step);
            prop_assert!(at >= found || !due(at), "{text} is due at {at}, before {found}");
        }
        prop_assert_eq!(cron.latest(Tz::UTC, found), Some(found));
    }

    #[test]
    fn backwards_it_is_the_same_times(
        minute in field(0, 59), hour in field(0, 23), weekday in field(0, 6), zone in zones(), after in lately(),
    ) {
        let cron = Cron::parse(&format!("{} {} * * {}", minute.0, hour.0, weekday.0)).unwrap();
        let first = cron.next_after(zone, after).unwrap();
        let second = cron.next_after(zone, first).unwrap();
        prop_assert!(second > first);
        prop_assert_eq!(cron.latest(zone, second), Some(second));
        prop_assert_eq!(cron.latest(zone, second - TimeDelta::microseconds(1)), Some(first));
        prop_assert!(cron.latest(zone, after).is_none_or(|before| before <= after));
    }

    #[test]
    fn a_wall_shows_what_it_is_due_at(minute in 0_u32..60, hour in 0_u32..24, zone in zones(), after in lately()) {
        let cron = Cron::parse(&format!("{minute} {hour} * * *")).unwrap();
        let found = cron.next_after(zone, after).unwrap();
        let local = found.with_timezone(&zone);
        let shown = (local.hour(), local.minute()) == (hour, minute);
        // Or the clock has just skipped it.
        let before = (found - TimeDelta::minutes(1)).with_timezone(&zone).naive_local();
        prop_assert!(shown || local.naive_local() - before > TimeDelta::minutes(1));
        prop_assert!(found - after <= TimeDelta::hours(49));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-0-9*/, a-z@]{0,24}", after in lately()) {
        if let Ok(cron) = Cron::parse(&text) {
            prop_assert!(cron.next_after(Tz::UTC, after).is_some_and(|next: DateTime<Utc>| next > after));
        }
    }
}
