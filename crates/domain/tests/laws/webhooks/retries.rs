//! Delivery retries: the bounds of the schedule, and that a failing receiver is left alone.

use entente_domain::webhooks::retries::{Failure, PATIENCE_SECONDS, SCHEDULE, again_after, given_up, pause};
use proptest::prelude::*;

use crate::any::at;

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        (300_u16..600).prop_map(Failure::Status),
        Just(Failure::Status(429)),
        Just(Failure::TimedOut),
        Just(Failure::Unreachable),
    ]
}

#[test]
fn the_schedule_is_the_standards() {
    let plain = |made| again_after(made, Failure::Status(500), None, 200);
    let seconds: Vec<u64> = (1..=7).map(|made| plain(made).unwrap() / 1_000).collect();
    assert_eq!(seconds, [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]);
    assert_eq!((plain(8), plain(0)), (None, None));
}

#[test]
fn five_days_of_failures_are_enough() {
    let hours = |n: i64| at(n * 3_600_000_000);
    assert!(!given_up(hours(0), at(PATIENCE_SECONDS * 1_000_000 - 1)));
    assert!(given_up(hours(0), hours(120)));
}

#[test]
fn what_is_only_this_deliverys_fault_pauses_nobody() {
    for status in [400, 401, 404, 410, 413, 422] {
        assert_eq!(pause(9, Failure::Status(status), Some(30)), 0, "{status}");
    }
    assert!(Failure::Status(410).gone() && !Failure::Status(404).gone());
}

#[test]
fn a_broker_is_waited_for_at_the_deliverys_place_and_what_it_refuses_is_given_up() {
    assert!(Failure::Held.keeps_place() && Failure::Held.of_receiver());
    assert_eq!((pause(1, Failure::Held, None), pause(100, Failure::Held, None)), (1, 300));
    assert_eq!((again_after(1, Failure::Refused, None, 0), pause(9, Failure::Refused, None)), (None, 0));
    let schedule = [Failure::Refused, Failure::TimedOut, Failure::Unreachable, Failure::Status(500)];
    assert!(schedule.iter().all(|failure| !failure.keeps_place()));
}

proptest! {
    #[test]
    fn a_wait_keeps_to_the_schedule(
        made in 1_u32..8, failure in failure(), retry_after in proptest::option::of(0_u32..1 << 20), chance in any::<u64>(),
    ) {
        let base = u64::from(SCHEDULE[made as usize - 1]) * 1_000;
        let wait = again_after(made, failure, retry_after, chance).unwrap();
        if failure.saturated() {
            prop_assert!(wait >= 60_000);
        }
        if wait != 60_000 {
            let (least, most) = if retry_after.is_some() { (base, base * 2) } else { (base * 4 / 5, base * 6 / 5) };
            prop_assert!((least..=most).contains(&wait), "{wait} is not within {least} to {most}");
        }
    }

    #[test]
    fn jitter_uses_its_whole_fifth(made in 1_u32..8) {
        let waits: Vec<u64> =
            (0..401).map(|chance| again_after(made, Failure::Unreachable, None, chance).unwrap()).collect();
        let base = u64::from(SCHEDULE[made as usize - 1]) * 1_000;
        prop_assert_eq!((waits[0], waits[400]), (base * 4 / 5, base * 6 / 5));
    }

    #[test]
    fn pauses_grow_and_end(failures in 1_u32..u32::MAX, failure in failure(), asked in proptest::option::of(any::<u32>())) {
        let this = pause(failures, failure, asked);
        prop_assert!(this <= 300);
        prop_assert!(pause(failures + 1, failure, asked) >= this);
        prop_assert_eq!(this == 0, !failure.of_receiver());
        prop_assert!(!failure.saturated() || this >= 60);
    }
}
