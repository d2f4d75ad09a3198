//! Search: a text is found by each of its words and by any run of them, whatever the text is; strings are those that a JSON
//! parser finds; and nothing of a search reaches PostgreSQL but words and operators.

use entente_domain::log::search::{DOCUMENT_BYTES, Place, Query, Words, strings};
use proptest::prelude::*;
use serde_json::{Value, json};

fn words(text: &str) -> Words {
    let mut words = Words::default();
    words.add(text);
    words
}

/// Reference implementation: strings of a value, without names.
fn parsed(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| parsed(item, found)),
        Value::Object(members) => members.values().for_each(|member| parsed(member, found)),
        _ => {}
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| json!(number)),
        Just(Value::Null),
        "[a-z :\"\\\\/\n\u{e9}\u{1f600}]{0,6}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-z\":\\\\]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn strings_are_those_that_a_parser_finds(value in value()) {
        let mut expected = Vec::new();
        parsed(&value, &mut expected);
        // A control character or an emoji is no word; either may become a space.
        let plain = |texts: &[String]| texts.iter().map(|text| words(text).text).collect::<Vec<_>>();
        prop_assert_eq!(plain(&strings(&value.to_string())), plain(&expected));
        prop_assert_eq!(plain(&strings(&serde_json::to_string_pretty(&value).unwrap())), plain(&expected));
    }

    #[test]
    fn a_text_that_ends_anywhere_gives_no_panic_and_no_nul(value in value(), at in 0..200_usize, text in "\\PC{0,40}") {
        let whole = format!("{value}\\u0000\\ud800{text}");
        let cut: String = whole.chars().take(at).collect();
        for one in [&whole, &cut] {
            prop_assert!(strings(one).iter().all(|text| !text.contains('\0')));
        }
    }

    #[test]
    fn marked_parts_are_the_text_and_mark_its_words(text in "\\PC{0,60}", word in "[a-z\u{e9}]{1,5}", at in 0..60_usize) {
        // That one is an operator of searches.
        prop_assume!(word != "or");
        let query = Query::parse(&word).unwrap();
        let texts = [text.clone(), format!("{text} {} {text}", word.to_uppercase()), text.chars().take(at).collect()];
        for text in texts {
            let parts = query.marked(&text);
            prop_assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), text.clone());
            for part in &parts {
                prop_assert!(!part.text.is_empty());
                prop_assert_eq!(part.is_word, part.is_word && part.text.to_lowercase() == word, "{:?}", part);
            }
            let has = words(&text).text.split_whitespace().any(|one| one == word);
            prop_assert_eq!(parts.iter().any(|part| part.is_word), has, "{}", text);
        }
    }

    #[test]
    fn words_are_plain_and_within_the_limit(text in "\\PC{0,60}", times in 1..40_usize) {
        let many = words(&text.repeat(times * 40));
        prop_assert!(many.text.len() <= DOCUMENT_BYTES);
        prop_assert!(many.text.chars().all(|char| char == ' ' || char.is_alphanumeric()));
        let again = words(&many.text);
        prop_assert_eq!(again.text.trim(), many.text.trim());
    }

    #[test]
    fn a_search_for_a_text_has_its_words_in_their_order(text in "[a-zA-Z0-9\u{e4}\u{dc}\u{5317}\u{4eac}_./:@-]{1,20}") {
        let expected = words(&text).text;
        let Ok(query) = Query::parse(&format!("x {text}")) else { return Ok(()) };
        let query: Vec<&str> = query.text.split(['"', '-', ' ']).filter(|word| !word.is_empty()).collect();
        prop_assert_eq!(&query[1..], expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn a_cursor_is_read_as_it_was_made(micros in 0..4_102_444_800_000_000_i64, id in any::<u128>(), seq in 0..i64::MAX) {
        let at = chrono::DateTime::from_timestamp_micros(micros).unwrap();
        let place = Place { at, source_id: uuid::Uuid::from_u128(id), seq };
        prop_assert_eq!(Place::parse(&place.cursor()).unwrap(), place);
        let longer = format!("{}0x", place.cursor());
        prop_assert!(Place::parse(&longer).is_err());
    }

    #[test]
    fn a_search_has_only_words_and_operators(text in "\\PC{0,60}") {
        if let Ok(query) = Query::parse(&text) {
            prop_assert!(query.text.chars().all(|char| char.is_alphanumeric() || " \"-".contains(char)));
            prop_assert!(query.excerpt([text.as_str()].into_iter()).is_some());
        }
    }
}

#[test]
fn operators_are_kept() {
    let read = |text: &str| Query::parse(text).unwrap().text.trim().to_owned();
    assert_eq!(read("Deploy FAILED"), "deploy failed");
    assert_eq!(read("\"deploy failed\" or -timeout"), "\"deploy failed \"or -timeout");
    assert_eq!(read("job.error 127.0.0.1"), "\"job error\" \"127 0 0 1\"");
    assert_eq!(read("x -\"not this\" \u{5317}\u{4eac}"), "x -\"not this \"\"\u{5317} \u{4eac}\"");
}

#[test]
fn a_search_needs_a_word_that_is_wanted() {
    for text in ["", "  ", "-", "\"\"", "-without", "-\"this one\" -nor", "!?", "or"] {
        assert!(Query::parse(text).is_err(), "{text}");
    }
    assert!(Query::parse(&"a ".repeat(32)).is_ok());
    assert!(Query::parse(&"a ".repeat(33)).is_err());
    assert!(Query::parse(&"a".repeat(1_025)).is_err());
}

#[test]
fn a_blob_is_left_out_and_the_rest_is_found() {
    let found = words(&format!("before {} after", "a".repeat(5_000)));
    assert_eq!((found.text.as_str(), found.is_cut), ("before after ", true));
    assert!(words(&"word ".repeat(20_000)).is_cut);
}

#[test]
fn an_excerpt_shows_the_word_with_its_surroundings() {
    let query = Query::parse("needle").unwrap();
    let hay = "hay ".repeat(100);
    let text = format!("{hay}the Needle,\nof course {hay}");
    let excerpt = query.excerpt(["nothing here", text.as_str()].into_iter()).unwrap();
    assert!(excerpt.contains("the Needle, of course"), "{excerpt}");
    assert!(excerpt.starts_with('…') && excerpt.ends_with('…') && excerpt.chars().count() < 300);
    assert_eq!(query.excerpt(["only this"].into_iter()).as_deref(), Some("only this"));
    assert_eq!(query.excerpt(std::iter::empty()), None);
}
