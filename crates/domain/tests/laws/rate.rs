//! The rate limit of a key: never more than allowed in any window, never less than promised.

use entente_domain::rate::{Allowance, Verdict, judge};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
/// More than any burst of these tests, so that counting ends even if nothing has to wait.
const MOST: u32 = 10_000;

fn allowance() -> impl Strategy<Value = Allowance> {
    let per_second = prop_oneof![1_u32..20, 1_u32..5_000, 1..=u32::MAX];
    (per_second, prop_oneof![1_u32..5, 1_u32..2_000])
        .prop_map(|(per_second, burst)| Allowance { per_second, burst })
}

/// Nanoseconds between two requests: none, about an interval, a pause.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 0_u64..2_000, 3 => 0..SECOND / 3, 1 => 0..SECOND * 20]
}

/// Returns the times of the requests that passed.
fn passed(allowance: Allowance, start: u64, gaps: &[u64]) -> Vec<u64> {
    let (mut now, mut full_at) = (start, 0);
    let mut moments = Vec::new();
    for gap in gaps {
        now += gap;
        if let Verdict::Pass { full_at: next, .. } = judge(allowance, full_at, now) {
            full_at = next;
            moments.push(now);
        }
    }
    moments
}

/// Returns how many requests pass at this time.
fn at_once(allowance: Allowance, mut full_at: u64, now: u64, most: u32) -> (u32, u64) {
    let mut count = 0;
    while count < most {
        let Verdict::Pass { full_at: next, .. } = judge(allowance, full_at, now) else { break };
        full_at = next;
        count += 1;
    }
    (count, full_at)
}

proptest! {
    #[test]
    fn no_window_lets_more_pass_than_burst_and_rate(
        allowance in allowance(), start in 0..SECOND * 1_000, gaps in vec(gap(), 1..150),
    ) {
        let moments = passed(allowance, start, &gaps);
        for (i, from) in moments.iter().enumerate() {
            for (j, to) in moments.iter().enumerate().skip(i) {
                let earned = u128::from(to - from) * u128::from(allowance.per_second) / u128::from(SECOND);
                let most = u128::from(allowance.burst) + earned;
                prop_assert!((j - i + 1) as u128 <= most, "{} in {} ns, {:?}", j - i + 1, to - from, allowance);
            }
        }
    }

    #[test]
    fn after_a_pause_the_whole_burst_passes_and_no_more(
        per_second in 1_u32..100_000, burst in 1_u32..300, now in SECOND * 1_000..SECOND * 2_000,
    ) {
        let allowance = Allowance { per_second, burst };
        let (count, full_at) = at_once(allowance, 0, now, MOST);
        prop_assert_eq!(count, burst);
        prop_assert!(full_at > now);
        let (again, _) = at_once(allowance, full_at, full_at, MOST);
        prop_assert_eq!(again, burst, "the bucket is full when it says so");
    }

    #[test]
    fn who_waits_as_told_passes_and_not_a_moment_sooner(
        allowance in allowance(), now in 0..SECOND * 1_000, taken in 0_u32..2_000,
    ) {
        let (_, full_at) = at_once(allowance, 0, now, taken);
        if let Verdict::Wait { nanos } = judge(allowance, full_at, now) {
            prop_assert!(nanos > 0);
            let passes = |at| matches!(judge(allowance, full_at, at), Verdict::Pass { .. });
            prop_assert!(passes(now + nanos));
            prop_assert!(!passes(now + nanos - 1));
        }
    }

    #[test]
    fn what_is_said_to_remain_remains(
        per_second in 1_u32..100_000, burst in 1_u32..300, taken in 0_u32..300, now in 0..SECOND, later in 0..SECOND,
    ) {
        let allowance = Allowance { per_second, burst };
        let (_, full_at) = at_once(allowance, 0, now, taken);
        if let Verdict::Pass { full_at, remaining } = judge(allowance, full_at, now + later) {
            prop_assert_eq!(at_once(allowance, full_at, now + later, MOST).0, remaining);
        }
    }

    #[test]
    fn who_keeps_to_the_rate_never_waits(per_second in 1_u32..100_000, burst in 1_u32..10, start in 0..SECOND) {
        let gap = SECOND.div_ceil(u64::from(per_second));
        let allowance = Allowance { per_second, burst };
        prop_assert_eq!(passed(allowance, start, &vec![gap; 100]).len(), 100);
    }

    #[test]
    fn no_numbers_break_it(per_second: u32, burst: u32, full_at: u64, now: u64) {
        let _verdict = judge(Allowance { per_second, burst }, full_at, now);
    }
}
