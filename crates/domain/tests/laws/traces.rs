//! Traces: a valid `traceparent` is parsed and written back unchanged; anything else is none.

use entente_domain::ids::Chance;
use entente_domain::traces::Trace;
use proptest::prelude::*;

struct Fixed(u128);

impl Chance for Fixed {
    fn bits(&self) -> u128 {
        self.0
    }
}

proptest! {
    #[test]
    fn a_lawful_header_comes_back(trace in 1_u128.., span in 1_u64.., sampled: bool) {
        let header = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(sampled));
        let read = Trace::parse(&header).unwrap();
        prop_assert_eq!(read.to_string(), header);
        prop_assert_eq!(read.id(), format!("{trace:032x}"));
        prop_assert_eq!(read.span_id(), format!("{span:016x}"));
        prop_assert_eq!(read.sampled(), sampled);
    }

    #[test]
    fn a_step_stays_in_its_trace(trace in 1_u128.., span in 1_u64.., bits: u128) {
        let read = Trace::parse(&format!("00-{trace:032x}-{span:016x}-01")).unwrap();
        let next = read.step(&Fixed(bits));
        prop_assert_eq!(next.id(), read.id());
        prop_assert!(Trace::parse(&next.to_string()).is_some(), "a step is never all zeros");
    }

    #[test]
    fn one_letter_off_is_none(trace in 1_u128.., span in 1_u64.., at in 0_usize..55, letter in "[g-zG-Z_ ]") {
        let mut header = format!("00-{trace:032x}-{span:016x}-01");
        header.replace_range(at..=at, &letter);
        // A header may have blanks at its ends; inside, only its own characters are valid.
        prop_assume!(letter != " " || (at != 0 && at != 54));
        prop_assert_eq!(Trace::parse(&header), None);
    }

    #[test]
    fn nothing_makes_it_fall_over(text in any::<String>()) {
        let _none = Trace::parse(&text);
    }
}

#[test]
fn what_the_standard_excludes_is_none() {
    let id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let lawful = format!("00-{id}-00f067aa0ba902b7-01");
    assert!(Trace::parse(&lawful).is_some());
    let none = [
        format!("ff-{id}-00f067aa0ba902b7-01"),
        format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
        format!("00-{id}-{}-01", "0".repeat(16)),
        format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase()),
        format!("{lawful}-more"),
        format!("00-{id}-00f067aa0ba902b7"),
        String::new(),
    ];
    for header in none {
        assert_eq!(Trace::parse(&header), None, "{header}");
    }
    let later = format!("01-{id}-00f067aa0ba902b7-03-more");
    assert_eq!(
        Trace::parse(&later).unwrap().to_string(),
        lawful,
        "a later version is read as far as it is known"
    );
}

#[test]
fn an_id_alone_becomes_a_place_in_its_trace() {
    let place = Trace::of_id("4BF92F3577B34DA6A3CE929D0E0E4736", &Fixed(7)).unwrap();
    assert_eq!(place.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000007-01");
    assert_eq!(Trace::of_id("4bf9", &Fixed(7)), None);
    assert_eq!(Trace::of_id(&"0".repeat(32), &Fixed(7)), None);
}
