//! Ids: exactly one text for each id, ordering by age, and the number inside a message's id.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use entente_domain::ids::{
    AccessRequestId, AssignmentId, ChannelId, EntryId, EventId, IntentId, KeyId, MessageId, NodeId, NotAnId,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::PartialSchema;
use uuid::Uuid;

use crate::any::{Dice, at, moment};

trait Id:
    From<Uuid>
    + Display
    + Debug
    + FromStr<Err = NotAnId>
    + Ord
    + Copy
    + Serialize
    + DeserializeOwned
    + PartialSchema
{
}

impl<T> Id for T where
    T: From<Uuid>
        + Display
        + Debug
        + FromStr<Err = NotAnId>
        + Ord
        + Copy
        + Serialize
        + DeserializeOwned
        + PartialSchema
{
}

/// Calls a generic function with each type of id.
macro_rules! for_each_id {
    ($function:ident($($argument:expr),*)) => {
        $function::<IntentId>("intent", $($argument),*);
        $function::<ChannelId>("chan", $($argument),*);
        $function::<MessageId>("msg", $($argument),*);
        $function::<EventId>("evt", $($argument),*);
        $function::<AssignmentId>("asg", $($argument),*);
        $function::<EntryId>("acl", $($argument),*);
        $function::<AccessRequestId>("areq", $($argument),*);
        $function::<KeyId>("key", $($argument),*);
        $function::<NodeId>("node", $($argument),*);
    };
}

fn has_one_text<T: Id>(prefix: &str, uuid: Uuid) {
    let id = T::from(uuid);
    let text = id.to_string();
    let (kind, digits) = text.split_once('_').unwrap();
    assert_eq!((kind, digits.len()), (prefix, 26));
    assert_eq!(format!("{id:?}"), text);
    assert!(text.parse::<T>() == Ok(id));
    assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
    assert!(serde_json::from_str::<T>(&format!("\"{text}\"")).unwrap() == id);
}

fn has_an_example<T: Id>(prefix: &str) {
    let schema = serde_json::to_value(T::schema()).unwrap();
    let example = schema["examples"][0].as_str().unwrap();
    assert!(example.starts_with(prefix));
    assert!(example.parse::<T>().is_ok(), "{example} in the document is no id");
}

/// Every id that parses formats to the same text, so no two texts are the same id.
fn reads_only_its_text<T: Id>(prefix: &str, texts: &[String]) {
    for text in texts {
        if let Ok(id) = text.parse::<T>() {
            assert_eq!(id.to_string(), *text);
            assert!(text.starts_with(&format!("{prefix}_")));
        }
    }
}

#[test]
fn every_type_has_a_readable_example() {
    for_each_id!(has_an_example());
}

#[test]
fn there_is_one_house() {
    assert_eq!(IntentId::SYSTEM.to_string(), "intent_00000000000000000000000000");
    assert!(IntentId::SYSTEM < IntentId::mint(at(1_000), &Dice(0)));
}

#[test]
fn a_ulid_that_does_not_fit_is_no_id() {
    // 26 digits of five bits hold 130; the first digit may use only three of its five.
    assert!("chan_7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<ChannelId>().is_ok());
    assert!("chan_80000000000000000000000000".parse::<ChannelId>().is_err());
    assert!("chan_ZZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<ChannelId>().is_err());
    assert!("chan_01j9zk4t6q8r2v5x7y9b1c3d5f".parse::<ChannelId>().is_err());
}

proptest! {
    #[test]
    fn an_id_has_one_text(bits: u128) {
        for_each_id!(has_one_text(Uuid::from_u128(bits)));
    }

    #[test]
    fn nothing_but_its_text_is_an_id(
        bits: u128,
        place: Index,
        letter in select("0123456789ABCDEFGHJKMNPQRSTVWXYZabilouILOU-_ äé".chars().collect::<Vec<_>>()),
        soup in "(intent|chan|msg|evt)_[0-9A-Za-z]{24,27}",
    ) {
        let text = ChannelId::from(Uuid::from_u128(bits)).to_string();
        let at = place.index(text.len());
        let changed: String =
            text.chars().enumerate().map(|(i, c)| if i == at { letter } else { c }).collect();
        let longer = format!("{text}{letter}");
        let texts = [changed.clone(), changed.to_lowercase(), longer, text[1..].to_owned(), soup];
        for_each_id!(reads_only_its_text(&texts));
    }

    #[test]
    fn an_id_of_one_kind_is_none_of_another(bits: u128) {
        let text = ChannelId::from(Uuid::from_u128(bits)).to_string();
        prop_assert!(text.parse::<MessageId>().is_err());
        prop_assert!(text.parse::<IntentId>().is_err());
        prop_assert!(text.replacen("chan", "msg", 1).parse::<MessageId>().is_ok());
    }

    #[test]
    fn ids_and_their_texts_sort_by_age(a in moment(), b in moment(), left: u128, right: u128) {
        let (first, second) = (ChannelId::mint(a, &Dice(left)), ChannelId::mint(b, &Dice(right)));
        if a.timestamp_millis() < b.timestamp_millis() {
            prop_assert!(first < second);
        }
        prop_assert_eq!(first.cmp(&second), first.to_string().cmp(&second.to_string()));
        prop_assert_eq!(first.cmp(&second), first.uuid().cmp(&second.uuid()));
    }

    #[test]
    fn chance_tells_ids_of_one_moment_apart(now in moment(), left: u128, right: u128) {
        const EIGHTY: u128 = (1 << 80) - 1;
        let same = EventId::mint(now, &Dice(left)) == EventId::mint(now, &Dice(right));
        prop_assert_eq!(same, left & EIGHTY == right & EIGHTY);
        prop_assert_ne!(EventId::mint(now, &Dice(left)), EventId::mint(now, &Dice(left ^ 1)));
        for bit in [0, 47] {
            let (one, other) = (Dice(left), Dice(left ^ (1 << bit)));
            prop_assert_ne!(MessageId::mint(now, 7, &one), MessageId::mint(now, 7, &other), "48 bits of chance");
        }
    }

    #[test]
    fn a_message_id_carries_its_number(now in moment(), number: u32, chance: u128) {
        let id = MessageId::mint(now, number, &Dice(chance));
        prop_assert_eq!(id.number(), number);
        prop_assert_eq!(id.to_string().parse::<MessageId>().unwrap().number(), number);
        prop_assert_eq!(MessageId::from(id.uuid()).number(), number);
    }

    #[test]
    fn message_ids_sort_by_moment_and_number(
        a in moment(), later in 0_i64..3_000, m: u32, n: u32, left: u128, right: u128,
    ) {
        let b = at(a.timestamp_micros() + later);
        let (first, second) = (MessageId::mint(a, m, &Dice(left)), MessageId::mint(b, n, &Dice(right)));
        if (a.timestamp_millis(), m) < (b.timestamp_millis(), n) {
            prop_assert!(first < second);
        }
        if m != n {
            prop_assert_ne!(first, second, "the number alone makes ids of a channel differ");
        }
    }

    #[test]
    fn a_time_before_1970_counts_as_1970(micros in -4_000_000_000_000_000_i64..0, chance: u128) {
        prop_assert_eq!(IntentId::mint(at(micros), &Dice(chance)), IntentId::mint(at(0), &Dice(chance)));
    }
}
