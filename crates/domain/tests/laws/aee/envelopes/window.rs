//! The maximum age of an envelope (AEE §11.1), and that no replay fits between it and the retention of ids.

use chrono::TimeDelta;
use entente_domain::aee::envelopes::window::Window;
use entente_domain::clock::Timestamp;
use entente_domain::refusal::Code;
use proptest::prelude::*;

use crate::any;

const WINDOW: Window = Window { max_age_seconds: 900, skew_seconds: 60 };

fn admitted(sent: Timestamp, now: Timestamp) -> bool {
    match WINDOW.admit(sent, now) {
        Ok(()) => true,
        Err(refusal) => {
            assert_eq!((refusal.code, refusal.errors[0].loc[1].as_str()), (Code::OutsideWindow, "ts"));
            false
        }
    }
}

#[test]
fn both_ends_count_to_the_microsecond() {
    let now = any::at(1_795_255_200_000_000);
    for (micros, expected) in [
        (0, true),
        (-900_000_000, true),
        (-900_000_001, false),
        (60_000_000, true),
        (60_000_001, false),
        (i64::from(u32::MAX) * 1000, false),
        (-i64::from(u32::MAX) * 1000, false),
    ] {
        assert_eq!(admitted(now + TimeDelta::microseconds(micros), now), expected, "{micros}");
    }
    assert!(
        WINDOW
            .admit(now - TimeDelta::days(1), now)
            .unwrap_err()
            .message
            .contains("more than 900 seconds ago")
    );
    assert!(WINDOW.admit(now + TimeDelta::days(1), now).unwrap_err().message.contains("ahead of"));
}

#[test]
fn the_edges_of_time_are_no_trouble() {
    let first = entente_domain::clock::parse("0001-01-01T00:00:00Z").unwrap();
    let last = entente_domain::clock::parse("9999-12-31T23:59:59.999999Z").unwrap();
    assert!(!admitted(first, last) && !admitted(last, first));
    let widest = Window { max_age_seconds: u32::MAX, skew_seconds: u32::MAX };
    assert_eq!(widest.memory(), TimeDelta::seconds(2 * i64::from(u32::MAX)));
    let only_now = Window { max_age_seconds: 0, skew_seconds: 0 };
    assert!(only_now.admit(first, first).is_ok() && only_now.admit(first, last).is_err());
}

proptest! {
    /// An accepted envelope is never accepted again after its id was purged.
    #[test]
    fn no_replay_slips_through(
        max_age in 0_u32..100_000, skew in 0_u32..100_000, now in any::moment(), sent in -200_000_000_000_i64..200_000_000_000,
        later in 0_i64..400_000_000_000,
    ) {
        let window = Window { max_age_seconds: max_age, skew_seconds: skew };
        let sent = now + TimeDelta::microseconds(sent);
        let again = now + TimeDelta::microseconds(later);
        if window.admit(sent, now).is_ok() && window.admit(sent, again).is_ok() {
            prop_assert!(again <= now + window.memory());
        }
    }
}
