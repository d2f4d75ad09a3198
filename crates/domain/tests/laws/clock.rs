//! Time as an argument: parsing, formatting, and that they are inverse.

use chrono::{DateTime, TimeDelta};
use entente_domain::clock::{micros, naive, offset, parse, plus_seconds, rfc3339};
use entente_domain::limits::DURATION_SECONDS;
use proptest::prelude::*;

use crate::any::{at, moment};

#[test]
fn a_time_is_read_in_each_form_that_clients_send() {
    let expected = parse("2026-11-21T06:27:14.874498Z").unwrap();
    for form in [
        "2026-11-21T06:27:14.874498+00:00",
        "2026-11-21T06:27:14.874498",
        "2026-11-21T08:27:14.874498+02:00",
        "2026-11-21T08:27:14.874498 02:00",
        "2026-11-21T04:57:14.874498-01:30",
        " 2026-11-21T06:27:14.874498999Z ",
        "2026-11-21t06:27:14.874498z",
    ] {
        assert_eq!(parse(form), Some(expected), "{form}");
    }
}

#[test]
fn what_is_no_time_is_not_read() {
    for none in
        ["", " ", "now", "1763706434", "2026-11-21", "06:27:14", "2026-13-01T00:00:00Z", "2026-11-21T06:27Z"]
    {
        assert_eq!(parse(none), None, "{none}");
    }
}

/// RFC 3339 has years of four digits, and the SDK's `datetime` begins with the year 1 (OI-3.6.5).
#[test]
fn a_year_that_clients_cannot_read_is_no_time() {
    for none in [
        "+12026-11-21T06:27:14",
        "-0001-11-21T06:27:14",
        "0000-11-21T06:27:14Z",
        "9999-12-31T23:59:59-00:01",
        "0001-01-01T00:00:00+00:01",
    ] {
        assert_eq!(parse(none), None, "{none}");
    }
    for known in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"] {
        assert!(parse(known).is_some(), "{known}");
    }
}

/// PostgreSQL stores no 60th second, and the SDK cannot parse one.
#[test]
fn a_leap_second_is_the_second_after_it() {
    let leap = parse("2016-12-31T23:59:60.25Z").unwrap();
    assert_eq!(rfc3339(leap), "2017-01-01T00:00:00.250000Z");
}

#[test]
fn there_is_a_last_moment() {
    let last = parse("9999-12-31T23:59:59.999999Z").unwrap();
    for seconds in [0, 1, DURATION_SECONDS, u32::MAX] {
        assert_eq!(plus_seconds(last, seconds), last, "held at the last moment that can be written down");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(at in moment()) {
        for form in [rfc3339(at), naive(at), offset(at), offset(at).replace('+', " ")] {
            prop_assert_eq!(parse(&form), Some(at), "{}", form);
        }
    }

    #[test]
    fn whatever_is_read_can_be_written_and_read_again(
        year in -1_i32..10_001, rest in "-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-6][0-9](\\.[0-9]{1,9})?",
        zone in "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?",
    ) {
        if let Some(at) = parse(&format!("{year:04}{rest}{zone}")) {
            prop_assert_eq!(rfc3339(at).len(), 27);
            for form in [rfc3339(at), naive(at), offset(at)] {
                prop_assert_eq!(parse(&form), Some(at), "{}", form);
            }
        }
    }

    #[test]
    fn nothing_breaks_the_reader(text: String) {
        let _time = parse(&text);
    }

    #[test]
    fn the_wire_form_has_six_digits_and_sorts(a in moment(), b in moment()) {
        prop_assert_eq!(rfc3339(a).len(), 27);
        prop_assert_eq!(naive(a).len(), 26);
        prop_assert!(rfc3339(a).ends_with('Z'));
        // Python 3.10 does not parse `Z` (OI-3.6.4).
        prop_assert_eq!(offset(a), naive(a) + "+00:00");
        prop_assert_eq!(rfc3339(a).cmp(&rfc3339(b)), a.cmp(&b));
    }

    #[test]
    fn cutting_goes_back_by_less_than_a_microsecond(
        seconds in -4_000_000_000_i64..4_000_000_000, nanos in 0_u32..1_000_000_000,
    ) {
        let whole = DateTime::from_timestamp(seconds, nanos).unwrap();
        let cut = micros(whole);
        prop_assert!(cut <= whole && whole - cut < TimeDelta::microseconds(1));
        prop_assert_eq!(micros(cut), cut);
        prop_assert_eq!(at(cut.timestamp_micros()), cut, "what is stored is what is read back");
    }

    #[test]
    fn seconds_add_up(now in moment(), a in 0..DURATION_SECONDS, b in 0..DURATION_SECONDS) {
        prop_assert_eq!(plus_seconds(now, a) - now, TimeDelta::seconds(i64::from(a)));
        prop_assert_eq!(plus_seconds(plus_seconds(now, a), b), plus_seconds(now, a + b));
    }
}
