//! Priority quotas of one sender (AEE §11.6), with a numeric clock: no minute has more urgent envelopes than rate
//! and burst allow, excess ones are lowered but never lost, and only the total limit causes a wait.

use entente_domain::aee::envelopes::Priority;
use entente_domain::aee::envelopes::quotas::{Rates, Spent, Verdict, judge};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

const USUAL: Rates = Rates { urgent: 60, high: 600, total: 0 };

fn rates() -> impl Strategy<Value = Rates> {
    let rate = || prop_oneof![Just(0_u32), 1..10_u32, 1..2_000_u32];
    (rate(), rate(), rate()).prop_map(|(urgent, high, total)| Rates { urgent, high, total })
}

/// Generates envelopes: the gap before each, and the priority that its sender gives.
fn letters() -> impl Strategy<Value = Vec<(u64, Priority)>> {
    let gap = prop_oneof![4 => Just(0), 2 => 0..SECOND, 1 => 0..MINUTE * 2];
    vec((gap, select(Priority::ALL.to_vec())), 1..200)
}

/// Judges one envelope and records the spending of its sender.
fn send(rates: Rates, spent: &mut Spent, asked: Priority, now: u64) -> Result<Priority, u64> {
    match judge(rates, *spent, asked, now) {
        Verdict::Pass { priority, spent: next } => {
            *spent = next;
            Ok(priority)
        }
        Verdict::Wait { nanos } => Err(nanos),
    }
}

/// Returns how many of `count` simultaneous envelopes get each priority, lowest first.
fn flood(rates: Rates, spent: &mut Spent, asked: Priority, count: u32, now: u64) -> [u32; 4] {
    let mut went = [0; 4];
    for _ in 0..count {
        let priority = send(rates, spent, asked, now).unwrap();
        went[Priority::ALL.iter().position(|one| *one == priority).unwrap()] += 1;
    }
    went
}

proptest! {
    #[test]
    fn no_span_has_more_of_a_priority_than_its_rate(rates in rates(), letters in letters()) {
        let (mut now, mut spent) = (0, Spent::default());
        let mut went: Vec<(u64, Priority)> = Vec::new();
        for (gap, asked) in letters {
            now += gap;
            if let Ok(priority) = send(rates, &mut spent, asked, now) {
                prop_assert!(priority <= asked, "nothing is made more pressing than it was");
                went.push((now, priority));
            }
        }
        for (rate, counts) in [
            (rates.urgent, went.iter().filter(|(_, p)| *p == Priority::Urgent).map(|(at, _)| *at).collect::<Vec<u64>>()),
            (rates.high, went.iter().filter(|(_, p)| *p == Priority::High).map(|(at, _)| *at).collect()),
            (rates.total, went.iter().map(|(at, _)| *at).collect()),
        ] {
            for (i, from) in counts.iter().enumerate().filter(|_| rate > 0) {
                for (j, to) in counts.iter().enumerate().skip(i) {
                    let most = u64::from(rate) + (to - from) * u64::from(rate) / MINUTE;
                    prop_assert!((j - i + 1) as u64 <= most, "{} in {} ns at {rate}", j - i + 1, to - from);
                }
            }
        }
    }

    #[test]
    fn without_a_total_nobody_waits_and_what_does_not_press_is_as_it_was(rates in rates(), letters in letters()) {
        let rates = Rates { total: 0, ..rates };
        let (mut now, mut spent) = (0, Spent::default());
        for (gap, asked) in letters {
            now += gap;
            let went = send(rates, &mut spent, asked, now);
            prop_assert!(went.is_ok());
            if asked <= Priority::Normal {
                prop_assert_eq!(went, Ok(asked));
            }
        }
    }

    #[test]
    fn who_waits_as_told_passes_and_not_a_moment_sooner(rates in rates(), letters in letters()) {
        let (mut now, mut spent) = (0, Spent::default());
        for (gap, asked) in letters {
            now += gap;
            let before = spent;
            if let Err(nanos) = send(rates, &mut spent, asked, now) {
                prop_assert!(rates.total > 0 && nanos > 0);
                prop_assert_eq!(spent, before, "what is refused spends nothing");
                prop_assert!(send(rates, &mut spent.clone(), asked, now + nanos - 1).is_err());
                prop_assert!(send(rates, &mut spent.clone(), asked, now + nanos).is_ok());
            }
        }
    }

    /// From then on, the sender needs no entry.
    #[test]
    fn a_sender_whose_time_is_over_is_a_new_one(rates in rates(), letters in letters(), more in letters()) {
        let (mut now, mut spent) = (0, Spent::default());
        for (gap, asked) in letters {
            now += gap;
            let _went = send(rates, &mut spent, asked, now);
        }
        let mut now = now.max(spent.forgotten_at());
        let mut new = Spent::default();
        for (gap, asked) in more {
            now += gap;
            prop_assert_eq!(send(rates, &mut spent, asked, now), send(rates, &mut new, asked, now));
        }
    }
}

#[test]
fn a_flood_of_urgent_goes_lower_step_by_step() {
    let mut spent = Spent::default();
    assert_eq!(flood(USUAL, &mut spent, Priority::Urgent, 1_000, MINUTE), [0, 340, 600, 60]);
    // A second later there is room for one more urgent envelope and ten high ones.
    assert_eq!(flood(USUAL, &mut spent, Priority::Urgent, 100, MINUTE + SECOND), [0, 89, 10, 1]);
    // Normal and low priorities are unchanged.
    assert_eq!(flood(USUAL, &mut spent, Priority::Normal, 5, MINUTE + SECOND), [0, 5, 0, 0]);
    assert_eq!(flood(USUAL, &mut spent, Priority::Low, 5, MINUTE + SECOND), [5, 0, 0, 0]);
    assert_eq!(
        flood(USUAL, &mut Spent::default(), Priority::Urgent, 60, MINUTE),
        [0, 0, 0, 60],
        "another sender"
    );
    // After a pause of one minute the full quota is available.
    assert_eq!(flood(USUAL, &mut spent, Priority::Urgent, 60, 2 * MINUTE + SECOND), [0, 0, 0, 60]);
}

#[test]
fn high_ones_leave_the_urgent_their_own() {
    let mut spent = Spent::default();
    assert_eq!(flood(USUAL, &mut spent, Priority::High, 700, 0), [0, 100, 600, 0]);
    assert_eq!(flood(USUAL, &mut spent, Priority::Urgent, 61, 0), [0, 1, 0, 60]);
}

#[test]
fn no_rate_is_no_limit() {
    let free = Rates { urgent: 0, high: 0, total: 0 };
    assert_eq!(flood(free, &mut Spent::default(), Priority::Urgent, 10_000, 0), [0, 0, 0, 10_000]);
    let high = Rates { urgent: 1, ..free };
    assert_eq!(flood(high, &mut Spent::default(), Priority::Urgent, 100, 0), [0, 0, 99, 1]);
}

#[test]
fn the_total_makes_a_sender_wait_whatever_it_sends() {
    let few = Rates { total: 6, ..USUAL };
    for asked in Priority::ALL {
        let mut spent = Spent::default();
        for _ in 0..6 {
            assert_eq!(send(few, &mut spent, asked, 0), Ok(asked));
        }
        assert_eq!(send(few, &mut spent, asked, 0), Err(10 * SECOND), "six a minute are one in ten seconds");
        assert_eq!(send(few, &mut spent, asked, 10 * SECOND), Ok(asked));
    }
}
