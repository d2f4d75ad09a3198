//! Amounts: exact with any number of digits, never binary fractions.

use entente_domain::amounts::{Amount, NotAnAmount};
use proptest::prelude::*;

fn amount(text: &str) -> Amount {
    text.parse().unwrap_or_else(|e: NotAnAmount| panic!("{text} {e}"))
}

proptest! {
    #[test]
    fn a_text_comes_back_without_needless_zeros(whole in 0_u64..1_000_000_000_000_000_000, part in "[0-9]{0,11}[1-9]") {
        prop_assert_eq!(amount(&format!("{whole}.{part}")).to_string(), format!("{whole}.{part}"));
        prop_assert_eq!(amount(&format!("{whole}.{part}0000")), amount(&format!("{whole}.{part}")));
        prop_assert_eq!(amount(&whole.to_string()).to_string(), whole.to_string());
    }

    #[test]
    fn sums_are_exact(cents in proptest::collection::vec(0_u32..100_000, 0..50)) {
        let sum = cents.iter().fold(Amount::ZERO, |sum, n| sum + amount(&format!("{}.{:02}", n / 100, n % 100)));
        let total: u64 = cents.iter().map(|n| u64::from(*n)).sum();
        prop_assert_eq!(sum, amount(&format!("{}.{:02}", total / 100, total % 100)));
    }

    #[test]
    fn a_number_of_json_is_its_shortest_text(units in -1_000_000_i64..1_000_000, places in 0_u32..7) {
        let number = format!("{units}e-{places}");
        let read = Amount::of_json(&serde_json::from_str(&number).unwrap()).unwrap();
        let ten = (0..places).fold(read, |_, _| read);
        let back = (0..10_u64.pow(places)).step_by(usize::try_from(10_u64.pow(places)).unwrap());
        prop_assert!(back.count() == 1 && ten == read);
        let sign = if units < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", units.unsigned_abs(), width = places as usize + 1);
        let (whole, part) = digits.split_at(digits.len() - places as usize);
        let plain = format!("{sign}{whole}.{part}0");
        prop_assert_eq!(read, Amount::try_from(plain).unwrap());
    }

    #[test]
    fn nothing_makes_it_fall_over(text in any::<String>(), number in any::<f64>()) {
        let _either: Result<Amount, _> = text.parse();
        if let Some(number) = serde_json::Number::from_f64(number) {
            let _either = Amount::of_json(&number);
        }
    }
}

#[test]
fn three_tenths_are_three_tenths() {
    assert_eq!(amount("0.1") + amount("0.2"), amount("0.3"));
    assert_eq!((amount("0.58") - amount("0.70")).to_string(), "-0.12");
    assert!(amount("0").is_spent() && !amount("0.000000000001").is_spent());
}

#[test]
fn what_is_no_amount_is_refused() {
    for text in
        ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "0.0000000000001", "1234567890123456789", " 1", "½"]
    {
        assert_eq!(text.parse::<Amount>(), Err(NotAnAmount), "{text}");
    }
}
