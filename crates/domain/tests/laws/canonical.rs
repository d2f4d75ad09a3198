//! Canonical JSON (RFC 8785) and the hashes over it.

use entente_domain::canonical::numbers::{holds, marked, rounded, unheld};
use entente_domain::canonical::{Digest, exact, exact_text, hex, read, sha256, show, text};
use entente_domain::refusal::Code;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Value, json};

use crate::any::{self, EXACT};

/// An object whose members are serialised in the given order.
struct Ordered<'a>(&'a [(String, Value)]);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
        map.end()
    }
}

/// Whether two values are equal to a reader that parses all numbers as doubles.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => left == right,
    }
}

/// RFC 8785, Appendix B: the bits of a double and its text.
#[test]
fn numbers_are_written_as_rfc_8785_says() {
    let cases: [(u64, &str); 24] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for (bits, expected) in cases {
        assert_eq!(text(&f64::from_bits(bits)).unwrap(), expected, "{bits:016x}");
        // Zero has no sign in canonical form.
        let sign = if expected == "0" { bits } else { 0 };
        assert_eq!(expected.parse::<f64>().unwrap().to_bits() | sign, bits, "{expected}");
    }
}

#[test]
fn what_is_no_number_has_no_form() {
    for none in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(text(&none).is_err());
    }
}

/// RFC 8785 §3.2.2.2 and §3.2.3.
#[test]
fn strings_and_members_are_written_as_rfc_8785_says() {
    let string = json!("€$\u{f}\nA'B\"\\\\\"/");
    assert_eq!(text(&string).unwrap(), r#""€$\u000f\nA'B\"\\\\\"/""#);
    let keys = ["€", "\r", "\u{fb33}", "1", "😀", "\u{80}", "ö"];
    let members: Vec<(String, Value)> = keys.iter().map(|key| ((*key).to_owned(), json!(1))).collect();
    let expected = "{\"\\r\":1,\"1\":1,\"\u{80}\":1,\"ö\":1,\"€\":1,\"😀\":1,\"\u{fb33}\":1}";
    assert_eq!(text(&Ordered(&members)).unwrap(), expected);
}

/// The examples of FIPS 180-4.
#[test]
fn the_hash_is_sha_256() {
    let cases = [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ];
    for (of, expected) in cases {
        assert_eq!(hex(&sha256(of)), expected);
    }
    assert_eq!(show(&sha256("")), "sha256:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
}

#[test]
fn an_integer_is_exact_if_it_is_a_double() {
    for n in [0, EXACT, -EXACT, EXACT + 1, -EXACT - 1, EXACT + 3, 1 << 62, i64::MIN] {
        assert_eq!(exact(&json!(n)), Ok(()), "{n}");
    }
    for n in [EXACT + 2, -EXACT - 2, i64::MAX, i64::MIN + 1] {
        let refusal = exact(&json!(n)).unwrap_err();
        assert_eq!(refusal.code, Code::Unprocessable);
        assert!(
            refusal.message.contains(&n.to_string()) && refusal.message.contains("string"),
            "{refusal:?}"
        );
    }
    assert_eq!(exact(&json!(1_u64 << 63)), Ok(()));
    assert_eq!(exact(&json!(u64::MAX)).unwrap_err().code, Code::Unprocessable);
}

/// Numbers as written, and in canonical form; those without one lie between two doubles.
const WRITTEN: [(&str, Option<&str>); 34] = [
    ("0", Some("0")),
    ("-0", Some("0")),
    ("-0.0", Some("0")),
    ("1.0", Some("1")),
    ("1E5", Some("100000")),
    ("0.1", Some("0.1")),
    ("0.10000000000000000555", Some("0.1")),
    ("5e-324", Some("5e-324")),
    ("2.2250738585072014E-308", Some("2.2250738585072014e-308")),
    ("1.7976931348623157e+308", Some("1.7976931348623157e+308")),
    ("1e-7", Some("1e-7")),
    ("0.000001", Some("0.000001")),
    ("9007199254740991", Some("9007199254740991")),
    ("9007199254740992", Some("9007199254740992")),
    ("-9007199254740992", Some("-9007199254740992")),
    ("9007199254740992.0", Some("9007199254740992")),
    ("9007199254740993", None),
    ("-9007199254740993", None),
    ("9007199254740993.0", None),
    ("9007199254740993e0", None),
    ("900719925474099300e-2", None),
    ("9007199254740994", Some("9007199254740994")),
    ("18446744073709551615", None),
    ("18446744073709551616", Some("18446744073709552000")),
    ("18446744073709552000", Some("18446744073709552000")),
    ("18446744073709552001", None),
    ("1e20", Some("100000000000000000000")),
    ("100000000000000000000", Some("100000000000000000000")),
    ("100000000000000000001", None),
    ("1e21", Some("1e+21")),
    ("1000000000000000000000", Some("1e+21")),
    ("1e23", Some("1e+23")),
    ("99999999999999991611392", Some("1e+23")),
    ("123456789012345678901234567890", None),
];

#[test]
fn a_number_is_taken_if_a_double_holds_it_and_written_as_ecmascript_writes_it() {
    for (number, canonical) in WRITTEN {
        assert_eq!(holds(number), canonical.is_some(), "{number}");
        let json = format!(r#"{{"1e999":"\"9007199254740993","n":[1,{{"deep":{number} }}]}}"#);
        assert_eq!(exact_text(&json).is_ok(), canonical.is_some(), "{json}");
        assert_eq!(unheld(json.as_bytes()), canonical.is_none().then_some(number), "{json}");
        let value: Value = serde_json::from_str(number).unwrap();
        if let Some(canonical) = canonical {
            assert_eq!(exact(&value), Ok(()), "{number}");
            assert_eq!(text(&value).unwrap(), canonical, "{number}");
            assert!(holds(canonical), "what was canonical is taken again: {canonical}");
        }
    }
    for none in ["", "-", "1e999", "-1e999", "NaN", "inf"] {
        assert!(!holds(none), "{none}");
    }
}

#[test]
fn a_number_that_the_parser_rounds_is_marked_and_nothing_else_is() {
    let plain = br#"{"a":9007199254740993,"b":1e300,"c":"100000000000000000001","d":[0.1,-5]}"#;
    assert_eq!((rounded(plain), marked(plain)), (None, None), "integers of 64 bits are not rounded");
    let long = br#"[1,{"a":100000000000000000001},-100000000000000000001,"x",9007199254740993.0]"#;
    assert_eq!(rounded(long), Some("100000000000000000001"));
    let marked = marked(long).unwrap();
    assert_eq!(marked, br#"[1,{"a":1e999},1e999,"x",1e999]"#);
    assert!(serde_json::from_slice::<Value>(&marked).is_err());
    assert!(serde_json::from_slice::<Box<serde_json::value::RawValue>>(&marked).is_ok());
}

proptest! {
    #[test]
    fn the_canonical_form_of_the_canonical_form_is_itself(value in any::json()) {
        let once = text(&value).unwrap();
        let read: Value = serde_json::from_str(&once).unwrap();
        prop_assert_eq!(text(&read).unwrap(), once);
        prop_assert!(same(&read, &value));
    }

    #[test]
    fn a_double_survives_its_text_bit_by_bit(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        let written = text(&x).unwrap();
        let read: Value = serde_json::from_str(&written).unwrap();
        // Zero has no sign in canonical form; adding it removes the sign.
        let (read_bits, bits) = (read.as_f64().unwrap().to_bits(), (x + 0.0).to_bits());
        prop_assert_eq!(read_bits, bits, "a log read back must have the hash that it was written with");
        prop_assert_eq!(text(&read).unwrap(), written);
    }

    #[test]
    fn the_order_of_members_does_not_matter(
        members in btree_map(any::text(), any::json(), 0..6).prop_map(|m| m.into_iter().collect::<Vec<_>>()),
        shuffled in Just(()).prop_perturb(|(), mut rng| rng.random::<u64>()),
    ) {
        let mut other = members.clone();
        other.sort_by_key(|(key, _)| sha256(format!("{shuffled}{key}")));
        prop_assert_eq!(text(&Ordered(&members)).unwrap(), text(&Ordered(&other)).unwrap());
    }

    #[test]
    fn members_stand_in_the_order_of_their_utf_16(keys in btree_map(any::text(), Just(Value::Null), 2..6)) {
        let members: Vec<(String, Value)> = keys.into_iter().collect();
        let written = text(&Ordered(&members)).unwrap();
        let mut keys: Vec<&String> = members.iter().map(|(key, _)| key).collect();
        keys.sort_by_key(|key| key.encode_utf16().collect::<Vec<u16>>());
        let expected: Vec<String> = keys.into_iter().map(|key| format!("{}:null", text(key).unwrap())).collect();
        prop_assert_eq!(written, format!("{{{}}}", expected.join(",")));
    }

    #[test]
    fn what_differs_has_another_form(left in any::json(), right in any::json()) {
        prop_assert_eq!(text(&left).unwrap() == text(&right).unwrap(), same(&left, &right));
    }

    #[test]
    fn an_exact_integer_keeps_its_digits(n in -EXACT..=EXACT) {
        prop_assert_eq!(exact(&json!(n)), Ok(()));
        prop_assert_eq!(text(&n).unwrap(), n.to_string());
    }

    #[test]
    fn an_integer_that_would_become_another_is_refused_wherever_it_stands(
        digits in "-?[1-9][0-9]{14,40}[13579]",
        around in any::json(),
        depth in 0_u8..4,
    ) {
        // Beyond 2^53 every double is even, and so is its canonical form.
        let odd = digits.parse::<f64>().unwrap().abs() >= 9_007_199_254_740_992.0;
        let mut json = digits.clone();
        for level in 0..depth {
            json = if level % 2 == 0 {
                format!(r#"{{"a":{around},"b":{json}}}"#)
            } else {
                format!("[{around},{json}]")
            };
        }
        prop_assert_eq!(exact_text(&around.to_string()), Ok(()));
        prop_assert_eq!(exact_text(&json).is_err(), odd, "{}", digits);
        let value: Value = serde_json::from_str(&json).unwrap();
        // The parser keeps integers of 64 bits, and rounds all others.
        let kept = digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok();
        prop_assert_eq!(exact(&value).is_err(), odd && kept, "{}", digits);
        prop_assert_eq!(marked(json.as_bytes()).is_some(), odd && !kept, "{}", digits);
    }

    #[test]
    fn what_is_written_is_read_back(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
        for written in [text(&x).unwrap(), serde_json::to_string(&x).unwrap(), format!("{x}"), format!("{x:e}")] {
            prop_assert!(holds(&written), "{}", written);
            prop_assert_eq!(exact_text(&written), Ok(()));
            let read: Value = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(exact(&read), Ok(()));
            // Zero has no sign in canonical form; adding it removes the sign.
            prop_assert_eq!((read.as_f64().unwrap() + 0.0).to_bits(), (x + 0.0).to_bits(), "{}", written);
        }
    }

    #[test]
    fn every_double_is_held_in_all_its_digits(bits in 0x4340_0000_0000_0000_u64..0x7ff0_0000_0000_0000, digits in 17_usize..400) {
        let x = f64::from_bits(bits);
        let whole = format!("{x:.0}");
        prop_assert!(holds(&whole) && holds(&format!("-{whole}")) && holds(&format!("{x:.digits$e}")), "{}", whole);
    }

    #[test]
    fn what_is_exact_means_the_same_after_its_canonical_form(value in any::json()) {
        prop_assert_eq!(exact(&value), Ok(()));
        let again: Value = serde_json::from_str(&text(&value).unwrap()).unwrap();
        prop_assert_eq!(exact(&again), Ok(()));
    }

    #[test]
    fn a_digest_is_read_back(digest: Digest) {
        prop_assert_eq!(read(&show(&digest)), Some(digest));
        prop_assert_eq!(hex(&digest).len(), 64);
        prop_assert_eq!(u8::from_str_radix(&hex(&digest)[..2], 16).unwrap(), digest[0]);
    }

    #[test]
    fn a_digest_has_one_text(digest: Digest, place: Index, letter: char) {
        let shown = show(&digest);
        let at = place.index(shown.len());
        let changed: String = shown.chars().enumerate().map(|(i, c)| if i == at { letter } else { c }).collect();
        if changed != shown {
            prop_assert_ne!(read(&changed), Some(digest));
        }
        prop_assert_eq!(read(&format!("{shown}=")), None);
        prop_assert_eq!(read(&shown[7..]), None);
    }

    #[test]
    fn bytes_in_hexadecimal_are_all_there(bytes in vec(any::<u8>(), 0..20)) {
        let shown = hex(&bytes);
        let back: Vec<u8> =
            (0..shown.len()).step_by(2).map(|i| u8::from_str_radix(&shown[i..i + 2], 16).unwrap()).collect();
        prop_assert_eq!(back, bytes);
    }
}
