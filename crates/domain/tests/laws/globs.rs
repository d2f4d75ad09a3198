//! Globs: matching, compared with a slow and simple implementation; and that covering is an order and sound with
//! respect to matching.

use entente_domain::globs::{Glob, NotAGlob};
use proptest::collection::vec;
use proptest::prelude::*;

fn glob(pattern: &str) -> Glob {
    Glob::parse(pattern).unwrap_or_else(|e| panic!("`{pattern}` {e}"))
}

/// Reference implementation: segment by segment, by trying everything.
fn plainly(pattern: &[&str], text: &[&str]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (["**", rest @ ..], _) => (0..=text.len()).any(|taken| plainly(rest, &text[taken..])),
        ([one, rest @ ..], [first, others @ ..]) => within(one, first) && plainly(rest, others),
        _ => false,
    }
}

fn within(pattern: &str, text: &str) -> bool {
    match pattern.chars().next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|taken| within(&pattern[1..], &text[taken..])),
        Some(letter) => text.starts_with(letter) && within(&pattern[1..], &text[1..]),
    }
}

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab]{1,3}", 3 => "[ab*]{1,3}", 2 => Just("**".to_owned()), 1 => Just("*".to_owned())]
        .prop_map(|text| if text.contains("**") { "**".to_owned() } else { text })
}

fn pattern() -> impl Strategy<Value = String> {
    vec(segment(), 1..5).prop_map(|segments| segments.join("/"))
}

fn text() -> impl Strategy<Value = String> {
    vec("[abc]{1,3}", 1..6).prop_map(|segments| segments.join("/"))
}

proptest! {
    #[test]
    fn matching_is_what_the_plain_way_says(pattern in pattern(), text in text()) {
        let (segments, parts): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), text.split('/').collect());
        prop_assert_eq!(glob(&pattern).matches(&text), plainly(&segments, &parts), "{} on {}", pattern, text);
    }

    #[test]
    fn a_pattern_covers_itself(pattern in pattern()) {
        prop_assert!(glob(&pattern).is_covered_by(&[glob(&pattern)]));
    }

    #[test]
    fn what_is_covered_is_matched(one in pattern(), others in vec(pattern(), 0..3), text in text()) {
        let covering: Vec<Glob> = others.iter().map(|other| glob(other)).collect();
        if glob(&one).is_covered_by(&covering) && glob(&one).matches(&text) {
            prop_assert!(covering.iter().any(|other| other.matches(&text)), "{} by {:?} on {}", one, others, text);
        }
    }

    #[test]
    fn what_is_not_covered_has_a_witness(one in "[ab*]{1,2}(/[ab*]{1,2}){0,1}", other in pattern()) {
        prop_assume!(!one.contains("**"));
        // All texts that can distinguish such short patterns, with one letter that they do not contain.
        let (mine, theirs) = (glob(&one), glob(&other));
        let mut texts = vec![String::new()];
        let mut witness = false;
        for _ in 0..7 {
            texts = texts.iter().flat_map(|text| "abz/".chars().map(move |c| format!("{text}{c}"))).collect();
            texts.retain(|text| text.len() < 7 || mine.matches(text));
            witness = witness || texts.iter().any(|text| mine.matches(text) && !theirs.matches(text));
        }
        if !mine.is_covered_by(std::slice::from_ref(&theirs)) {
            prop_assert!(witness, "{} is said not to be covered by {}", one, other);
        }
    }

    #[test]
    fn covering_is_passed_on(a in pattern(), b in pattern(), c in pattern()) {
        let (a, b, c) = (glob(&a), glob(&b), glob(&c));
        if a.is_covered_by(std::slice::from_ref(&b)) && b.is_covered_by(std::slice::from_ref(&c)) {
            prop_assert!(a.is_covered_by(&[c]));
        }
    }

    #[test]
    fn nothing_makes_it_fall_over(pattern in any::<String>(), text in any::<String>()) {
        if let Ok(glob) = Glob::parse(&pattern) {
            let _either = glob.matches(&text);
        }
    }
}

#[test]
fn the_protocols_own_examples() {
    let table = [
        ("/w/**", "/w", true),
        ("/w/**", "/w/a/b", true),
        ("/w/**", "/wx", false),
        ("/w/*", "/w/a", true),
        ("/w/*", "/w/a/b", false),
        ("tier-fast/*", "tier-fast/small", true),
        ("anthropic/claude-3-haiku-*", "anthropic/claude-3-haiku-20240307", true),
        ("anthropic/claude-3-haiku-*", "anthropic/claude-3-opus-20240229", false),
        ("[ab]", "a", false),
        ("[ab]", "[ab]", true),
        ("a?", "ab", false),
        ("**", "anything/at/all", true),
        ("**/x", "x", true),
        ("**/x", "a/b/x", true),
        ("**/**", "a", true),
        ("/a/**/b", "/a/b", true),
        ("/a/**/b", "/a/x/y/b", true),
        ("/a/**/b", "/ab", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(glob(pattern).matches(text), expected, "{pattern} on {text}");
    }
    let covered = |one: &str, others: &[&str]| {
        glob(one).is_covered_by(&others.iter().map(|other| glob(other)).collect::<Vec<_>>())
    };
    assert!(covered("/w/src/**", &["/w/**"]));
    assert!(covered("/w/*", &["/w/**"]) && !covered("/w/**", &["/w/*"]));
    assert!(covered("a*", &["a", "a*b", "a*"]), "by several together");
    assert!(!covered("/w/**", &["/w/a/**", "/w/b/**"]));
    assert!(!covered("/w", &[]), "nothing covers nothing");
}

#[test]
fn what_is_no_pattern_says_why() {
    assert_eq!(Glob::parse(""), Err(NotAGlob::Empty));
    assert_eq!(Glob::parse("a**b"), Err(NotAGlob::DoubleStar));
    assert_eq!(Glob::parse("a\n"), Err(NotAGlob::Control));
    assert_eq!(Glob::parse(&"a".repeat(801)), Err(NotAGlob::TooLong));
}

#[test]
fn a_pattern_made_to_exhaust_the_search_is_refused_in_bounded_time() {
    let hostile = "*a".repeat(100);
    let many: Vec<Glob> =
        (0..20).map(|n| glob(&format!("{}{}", "*a".repeat(n + 1), "*b".repeat(60)))).collect();
    assert!(!glob(&hostile).is_covered_by(&many));
}
