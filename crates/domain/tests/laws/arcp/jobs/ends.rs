//! Ends of jobs (ARCP §8.4): a repeated report is told from a different one.

use entente_domain::arcp::jobs::ends::End;
use serde_json::value::RawValue;

#[test]
fn results_are_the_same_report_only_if_every_number_is() {
    let of = |text: &str| {
        let result = RawValue::from_string(text.to_owned()).ok();
        End::Result { result, result_id: None, result_size: None, summary: None }.digest().unwrap()
    };
    assert_eq!(of(r#"{ "a": 1.50, "b": [2] }"#), of(r#"{"b":[2],"a":1.5}"#));
    for (one, other) in [
        ("9007199254740993", "9007199254740992"),
        ("18446744073709551617", "18446744073709551616"),
        ("18446744073709551617", "18446744073709551618"),
    ] {
        assert_ne!(of(one), of(other), "{one} {other}");
    }
}
