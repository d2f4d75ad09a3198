//! API keys: a minted key parses and a mistyped one does not; scopes, act-as rights and expiry.

use entente_domain::globs::glob_matches;
use entente_domain::identity::keys::{Dialect, Key, KeyAsk, Presented, Scope, create};
use entente_domain::ids::KeyId;
use entente_domain::limits::{LIST_ITEMS, RATE_PER_SECOND};
use entente_domain::refusal::Code;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use uuid::Uuid;

use crate::any::{Dice, at, moment, name};

fn ask() -> KeyAsk {
    KeyAsk::default()
}

fn key(ask: KeyAsk) -> Result<Key, Code> {
    let id = KeyId::from(Uuid::from_u128(1));
    create(ask, "0jVx3Kd81aQz".to_owned(), "agent.ada", "human.root", id, at(1_000))
        .map_err(|refusal| refusal.code)
}

/// Matches a glob letter by letter: a star is either empty, or one letter followed by the star again.
fn matches_slowly(glob: &[char], name: &[char]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, _) => name.is_empty(),
        (Some(('*', rest)), None) => matches_slowly(rest, name),
        (Some(('*', rest)), Some((_, tail))) => matches_slowly(rest, name) || matches_slowly(glob, tail),
        (Some(_), None) => false,
        (Some((letter, rest)), Some((first, tail))) => letter == first && matches_slowly(rest, tail),
    }
}

#[test]
fn words_are_read_as_they_are_written() {
    for scope in Scope::ALL {
        assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
    }
    for dialect in [Dialect::Standard, Dialect::OpenIntentPython] {
        assert_eq!(Dialect::parse(dialect.as_str()), Some(dialect));
        assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.as_str());
    }
    for none in ["", "Admin", "intents", "*", "standard "] {
        assert_eq!((Scope::parse(none), Dialect::parse(none)), (None, None));
    }
}

#[test]
fn only_who_asks_for_everything_gets_it() {
    assert!(!Scope::ordinary().contains(&Scope::Admin));
    assert_eq!(Scope::ordinary().len(), Scope::ALL.len() - 1);
    let plain = key(ask()).unwrap();
    assert_eq!(plain.scopes, Scope::ordinary());
    assert!(!plain.any_agent());
    assert_eq!(key(KeyAsk { scopes: Some(Vec::new()), ..ask() }), Err(Code::InvalidRequest));
    let all = KeyAsk { scopes: Some(Scope::ALL.to_vec()), ..ask() };
    assert_eq!(key(all).unwrap().scopes, Scope::ALL);
}

#[test]
fn a_list_has_an_end() {
    let globs = |count| KeyAsk { act_as: vec!["agent.*".to_owned(); count], ..ask() };
    assert!(key(globs(LIST_ITEMS)).is_ok());
    assert_eq!(key(globs(LIST_ITEMS + 1)), Err(Code::InvalidRequest));
    let scopes = |count| KeyAsk { scopes: Some(vec![Scope::IntentsRead; count]), ..ask() };
    assert_eq!(key(scopes(LIST_ITEMS + 1)), Err(Code::InvalidRequest));
    for glob in ["", " a", "a\n", "role:x", &"x".repeat(201)] {
        assert_eq!(
            key(KeyAsk { act_as: vec![glob.to_owned()], ..ask() }),
            Err(Code::InvalidRequest),
            "{glob:?}"
        );
    }
}

/// The database stores a rate as a signed 32-bit integer.
#[test]
fn a_rate_that_cannot_be_kept_is_refused() {
    let rate = |per_second| KeyAsk { rate_per_second: Some(per_second), ..ask() };
    for kept in [0, 1, RATE_PER_SECOND] {
        assert_eq!(key(rate(kept)).unwrap().rate_per_second, Some(kept));
    }
    for lost in [RATE_PER_SECOND + 1, i32::MAX as u32 + 1, u32::MAX] {
        assert_eq!(key(rate(lost)), Err(Code::InvalidRequest));
    }
}

#[test]
fn a_key_that_is_over_is_not_made() {
    let ends = |micros| KeyAsk { expires_at: Some(at(micros)), ..ask() };
    assert_eq!(key(ends(1_000)), Err(Code::AlreadyExpired));
    assert_eq!(key(ends(999)), Err(Code::AlreadyExpired));
    assert!(key(ends(1_001)).is_ok());
}

proptest! {
    #[test]
    fn a_minted_key_is_read_as_itself(chance: u128) {
        let minted = Presented::mint(&Dice(chance));
        let text = minted.reveal();
        prop_assert_eq!(text.len(), 4 + 12 + 1 + 44 + 6);
        let start = format!("ent_{}_", minted.public_id);
        prop_assert!(text.starts_with(&start));
        prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        let read = Presented::parse(&text).unwrap();
        prop_assert_eq!(&read.public_id, &minted.public_id);
        prop_assert_eq!(read.reveal(), text);
    }

    #[test]
    fn other_chance_is_another_key(left: u128, right: u128) {
        let (a, b) = (Presented::mint(&Dice(left)).reveal(), Presented::mint(&Dice(right)).reveal());
        prop_assert_eq!(a == b, left == right, "128 bits of chance are all in the key");
    }

    #[test]
    fn one_wrong_letter_is_no_key(chance: u128, letter in prop_oneof!["[0-9A-Za-z_]", any::<char>().prop_map(String::from)]) {
        let text = Presented::mint(&Dice(chance)).reveal();
        for at in 0..text.len() {
            let wrong = format!("{}{letter}{}", &text[..at], &text[at + 1..]);
            prop_assert_eq!(Presented::parse(&wrong).is_some(), wrong == text, "{}", wrong);
        }
    }

    #[test]
    fn a_letter_too_many_too_few_or_out_of_place_is_no_key(chance: u128, place: Index, letter in "[0-9A-Za-z_ ]") {
        let text = Presented::mint(&Dice(chance)).reveal();
        let at = place.index(text.len());
        let (before, after) = text.split_at(at);
        let more = format!("{before}{letter}{after}");
        let fewer = format!("{before}{}", &after[1..]);
        let mut letters: Vec<char> = text.chars().collect();
        letters.swap(at, (at + 1) % text.len());
        // Where secret and checksum meet, a swap changes both; they match by chance once in some billions.
        let swapped: String = if at == 60 { "ent_".to_owned() } else { letters.iter().collect() };
        for wrong in [more, fewer, swapped] {
            prop_assert_eq!(Presented::parse(&wrong).is_some(), wrong == text, "{}", wrong);
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in prop_oneof![any::<String>(), "ent_[0-9A-Za-zä_]{12}_[0-9A-Za-zä_]{48,52}"]) {
        if let Some(read) = Presented::parse(&text) {
            prop_assert_eq!(read.reveal(), text);
        }
    }

    #[test]
    fn a_glob_matches_what_it_says(glob in "[ab*]{0,7}", name in "[ab]{0,9}") {
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        prop_assert_eq!(glob_matches(&glob, &name), matches_slowly(&letters(&glob), &letters(&name)));
    }

    #[test]
    fn a_glob_of_any_letters_matches_what_it_says(parts in vec("[aä😀.]{0,2}", 1..4), name in "[aä😀.*]{0,7}") {
        let glob = parts.join("*");
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        prop_assert_eq!(glob_matches(&glob, &name), matches_slowly(&letters(&glob), &letters(&name)));
    }

    #[test]
    fn a_key_acts_as_its_principal_and_whom_its_globs_name(
        globs in vec(select(vec!["*", "agent.*", "agent.b", "*.b"]), 0..3), agent in name(),
    ) {
        let made = key(KeyAsk { act_as: globs.iter().map(|g| (*g).to_owned()).collect(), ..ask() }).unwrap();
        prop_assert!(made.may_act_as("agent.ada"));
        let named = globs.iter().any(|glob| glob_matches(glob, &agent));
        prop_assert_eq!(made.may_act_as(&agent), named || agent == "agent.ada");
        prop_assert_eq!(made.any_agent(), globs.contains(&"*"));
        prop_assert!(!made.any_agent() || made.may_act_as(&agent));
    }

    #[test]
    fn a_key_is_made_as_asked(scopes in subsequence(Scope::ALL.to_vec(), 1..7), rate in 0_u32..1_000_000, label in name()) {
        let made = key(KeyAsk {
            label: Some(label.clone()), scopes: Some(scopes.clone()), rate_per_second: Some(rate), ..ask()
        }).unwrap();
        prop_assert_eq!((made.scopes, made.rate_per_second, made.label), (scopes, Some(rate), Some(label)));
        prop_assert_eq!((made.revoked_at, made.last_used_at, made.created_at), (None, None, at(1_000)));
    }

    #[test]
    fn a_key_opens_until_its_end_and_never_after(
        now in moment(), end in proptest::option::of(moment()), revoked in proptest::option::of(moment()),
    ) {
        let made = Key { expires_at: end, revoked_at: revoked, ..key(ask()).unwrap() };
        prop_assert_eq!(made.in_force(now), end.is_none_or(|end| now < end) && revoked.is_none());
        for end in [end, revoked].into_iter().flatten() {
            prop_assert!(!made.in_force(end), "the instant of its end is over");
        }
        let later = at(now.timestamp_micros() + 1);
        prop_assert!(made.in_force(now) || !made.in_force(later), "what is over stays over");
    }
}
