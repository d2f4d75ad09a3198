//! Generators of random inputs: times, names, JSON, random bits.

use chrono::DateTime;
use entente_domain::clock::Timestamp;
use entente_domain::ids::Chance;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// The largest integer that a double represents exactly together with its neighbours.
pub const EXACT: i64 = (1 << 53) - 1;

/// Random bits that are always the same.
pub struct Dice(pub u128);

impl Chance for Dice {
    fn bits(&self) -> u128 {
        self.0
    }
}

/// Returns the time this many microseconds after 1970.
pub fn at(micros: i64) -> Timestamp {
    DateTime::from_timestamp_micros(micros).unwrap()
}

/// Generates a time of this century.
pub fn moment() -> impl Strategy<Value = Timestamp> {
    (946_684_800_000_000..4_102_444_800_000_000_i64).prop_map(at)
}

/// Generates a valid name.
pub fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{1,8}", "agent\\.[a-z]{1,6}", "[a-zA-Zäß€😀][a-z0-9._/:-]{0,10}[a-z]"]
        .prop_filter("the words of addressing are no names", |name| !name.starts_with("role:"))
}

/// Generates a text of any characters.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,8}", any::<String>(), "[\u{0}-\u{20}\"\\\\/äß€😀\u{fb33}\u{e000}]{0,6}"]
}

/// Generates a number that survives canonicalisation.
pub fn number() -> impl Strategy<Value = Value> {
    let doubles = any::<f64>().prop_filter("in range", |x| x.abs() < 9_007_199_254_740_991.0);
    prop_oneof![
        (-EXACT..=EXACT).prop_map(Value::from),
        (-10_i64..10).prop_map(Value::from),
        doubles.prop_map(Value::from)
    ]
}

/// Generates nested JSON that survives canonicalisation.
pub fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(), inner, 0..4).prop_map(|members| Value::Object(members.into_iter().collect()))
        ]
    })
}

/// Generates a JSON object.
pub fn object() -> impl Strategy<Value = Map<String, Value>> {
    btree_map(prop_oneof!["[a-c]", text()], json(), 0..4).prop_map(|members| members.into_iter().collect())
}
