//! Schedules: windows, intervals and single times, and times that passed while no server ran.

use chrono::TimeDelta;
use entente_domain::clock::{Timestamp, parse};
use entente_domain::openintent::triggers::schedule::{CATCH_UP, COUNTED, Missed, Schedule, Skipped};
use entente_domain::openintent::triggers::{Condition, TriggerAsk, TriggerKind};
use proptest::prelude::*;

use super::trigger;
use crate::any::at;

fn time(text: &str) -> Timestamp {
    parse(&format!("2026-11-22T{text}Z")).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "it is read better where it is called")]
fn of(condition: Condition) -> Schedule {
    Schedule::of(&condition, time("08:00:00")).unwrap().unwrap()
}

fn hourly(missed: Missed) -> Schedule {
    of(Condition { cron: Some("0 * * * *".to_owned()), missed: Some(missed), ..Condition::default() })
}

#[test]
fn what_is_in_time_is_fired_for() {
    for missed in [Missed::Skip, Missed::Latest, Missed::All] {
        let step = hourly(missed).step(time("09:00:00"), time("09:00:59"));
        assert_eq!(step.fire, Some(time("09:00:00")), "{missed:?}");
        assert_eq!((step.skipped, step.next), (None, Some(time("10:00:00"))));
    }
}

#[test]
fn each_policy_makes_up_in_its_way() {
    let (due, now) = (time("09:00:00"), time("12:30:00"));
    let step = hourly(Missed::Skip).step(due, now);
    assert_eq!((step.fire, step.next), (None, Some(time("13:00:00"))));
    assert_eq!(step.skipped, Some(Skipped { from: due, count: 4 }));
    let step = hourly(Missed::Latest).step(due, now);
    assert_eq!((step.fire, step.next), (Some(time("12:00:00")), Some(time("13:00:00"))));
    assert_eq!(step.skipped, Some(Skipped { from: due, count: 3 }));
    let step = hourly(Missed::All).step(due, now);
    assert_eq!((step.fire, step.skipped, step.next), (Some(due), None, Some(time("10:00:00"))));
    // A time that is not missed fires, even if others are.
    let step = hourly(Missed::Skip).step(due, time("12:00:30"));
    assert_eq!((step.fire, step.next), (Some(time("12:00:00")), Some(time("13:00:00"))));
    assert_eq!(step.skipped, Some(Skipped { from: due, count: 3 }));
}

#[test]
fn all_is_a_hundred() {
    let minutely =
        of(Condition { every_seconds: Some(60), missed: Some(Missed::All), ..Condition::default() });
    let (due, now) = (time("08:01:00"), time("11:00:00"));
    let mut next = Some(due);
    let (mut fired, mut skipped) = (0, 0);
    while let Some(due) = next.filter(|due| *due <= now) {
        let step = minutely.step(due, now);
        fired += usize::from(step.fire.is_some());
        skipped += step.skipped.map_or(0, |skipped| skipped.count);
        next = step.next;
    }
    assert_eq!((fired, skipped), (CATCH_UP, 80));
    assert_eq!(next, Some(time("11:01:00")));
    // A whole year is not counted to its end.
    let step = minutely.step(due, now + TimeDelta::days(365));
    assert_eq!(step.skipped.unwrap().count, COUNTED);
}

#[test]
fn a_moment_comes_once() {
    let moments = [
        Condition { at: Some(time("09:00:00")), cron: Some("* * * * *".to_owned()), ..Condition::default() },
        Condition {
            starts_at: Some(time("09:00:00")),
            ends_at: Some(time("09:00:00")),
            ..Condition::default()
        },
    ];
    for condition in moments {
        let once = of(condition);
        assert!(once.is_once());
        assert_eq!(once.next_after(time("08:59:59")), Some(time("09:00:00")));
        assert_eq!(once.next_after(time("09:00:00")), None);
        let step = once.step(time("09:00:00"), time("23:00:00"));
        assert_eq!((step.fire, step.next), (Some(time("09:00:00")), None));
    }
}

#[test]
fn a_window_is_kept() {
    let within = of(Condition {
        cron: Some("0 * * * *".to_owned()),
        starts_at: Some(time("10:00:00")),
        ends_at: Some(time("12:00:00")),
        ..Condition::default()
    });
    assert_eq!(within.next_after(time("08:00:00")), Some(time("10:00:00")));
    assert_eq!(within.next_after(time("11:00:00")), Some(time("12:00:00")));
    assert_eq!(within.next_after(time("12:00:00")), None);
    assert_eq!(within.latest(time("23:00:00")), Some(time("12:00:00")));
    assert_eq!(within.latest(time("09:59:59")), None);
    let from = of(Condition {
        every_seconds: Some(3_600),
        starts_at: Some(time("10:30:00")),
        ..Condition::default()
    });
    assert_eq!(from.next_after(time("08:00:00")), Some(time("10:30:00")));
    assert_eq!(from.next_after(time("10:30:00")), Some(time("11:30:00")));
}

#[test]
fn what_is_no_schedule_is_refused() {
    let wrong = [
        Condition { cron: Some("x".to_owned()), ..Condition::default() },
        Condition {
            cron: Some("* * * * *".to_owned()),
            timezone: Some("Mars/Olympus".to_owned()),
            ..Condition::default()
        },
        Condition { every_seconds: Some(1), ..Condition::default() },
        Condition {
            starts_at: Some(at(1)),
            ends_at: Some(at(0)),
            every_seconds: Some(60),
            ..Condition::default()
        },
    ];
    for condition in wrong {
        assert!(Schedule::of(&condition, at(0)).is_err(), "{condition:?}");
    }
    assert_eq!(Schedule::of(&Condition::default(), at(0)).unwrap(), None);
}

#[test]
fn a_change_begins_anew() {
    let condition = Condition { every_seconds: Some(60), ..Condition::default() };
    let one = trigger(TriggerKind::Schedule, condition);
    assert_eq!(one.next_due, Some(at(60_000_000)));
    let renamed = TriggerAsk { name: Some("other".to_owned()), ..TriggerAsk::default() };
    let later = one.changed(renamed, at(3_600_000_000)).unwrap();
    assert_eq!((later.next_due, later.version), (one.next_due, 2), "a new name leaves its times alone");
    let off = one.changed(TriggerAsk { enabled: Some(false), ..TriggerAsk::default() }, at(1)).unwrap();
    assert_eq!(off.next_due, None);
    let on =
        off.changed(TriggerAsk { enabled: Some(true), ..TriggerAsk::default() }, at(3_601_000_000)).unwrap();
    assert_eq!(on.next_due, Some(at(3_660_000_000)), "what passed meanwhile is not made up for");
}

proptest! {
    #[test]
    fn an_interval_is_even(seconds in 10_u32..100_000, after in 0_i64..10_000_000_000) {
        let schedule = Condition { every_seconds: Some(seconds), ..Condition::default() };
        let schedule = Schedule::of(&schedule, at(0)).unwrap().unwrap();
        let next = schedule.next_after(at(after)).unwrap();
        prop_assert!(next > at(after) && next - at(after) <= TimeDelta::seconds(i64::from(seconds)));
        prop_assert_eq!(next.timestamp() % i64::from(seconds), 0);
        prop_assert_eq!(schedule.latest(next), Some(next));
    }

    #[test]
    fn a_step_goes_forward(hours in 0_i64..200, minutes in 0_i64..60, policy in 0_usize..3) {
        let missed = [Missed::Skip, Missed::Latest, Missed::All][policy];
        let due = time("09:00:00");
        let now = due + TimeDelta::hours(hours) + TimeDelta::minutes(minutes);
        let step = hourly(missed).step(due, now);
        prop_assert!(step.fire.is_none_or(|fire| fire >= due && fire <= now));
        prop_assert!(step.next.unwrap() > step.fire.unwrap_or(now));
        prop_assert!(step.skipped.is_none_or(|skipped| skipped.count > 0 && skipped.from == due));
    }
}
