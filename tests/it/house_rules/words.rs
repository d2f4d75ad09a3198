//! Words: the code and its documents use the terms of the protocols and of the field (GLOSSARY.md), and none that
//! only this project would understand.

use super::citations::texts;
use super::none;

/// Words that are not used, each in two parts, so that this file does not find itself. Their case counts: some are
/// plain English in lower case.
const PRIVATE: [(&str, &str); 26] = [
    ("De", "ed"),
    ("De", "eds"),
    ("de", "ed"),
    ("de", "eds"),
    ("Do", "ors"),
    ("the ", "door"),
    ("De", "sk"),
    ("De", "sks"),
    ("Se", "at"),
    ("Se", "ats"),
    ("se", "at"),
    ("se", "ats"),
    ("Ben", "ch"),
    ("Wor", "ks"),
    ("Ho", "mes"),
    ("Par", "cel"),
    ("Sh", "elf"),
    ("Cou", "rier"),
    ("Cou", "riers"),
    ("cou", "rier"),
    ("cou", "riers"),
    ("the ", "house"),
    ("hou", "se's"),
    ("HO", "USE"),
    ("the ", "law"),
    ("la", "w's"),
];

/// Folders that are not searched: tests tell stories with doors and houses in them.
const STORIES: &str = "tests/";

/// Exempt words: the list of changes names what is no longer there.
const EXEMPT: [(&str, (&str, &str)); 1] = [("CHANGELOG.md", ("de", "ed"))];

/// Returns the private words of a text, with their line numbers.
fn private(text: &str) -> Vec<(usize, String)> {
    let words = PRIVATE.map(|(begin, end)| [begin, end].concat());
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in &words {
            let is_whole =
                |at: usize| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part);
            if line.match_indices(word.as_str()).any(|(at, _)| is_whole(at)) {
                found.push((index + 1, word.clone()));
            }
        }
    }
    found
}

#[test]
fn no_word_is_private() {
    let mut faults = Vec::new();
    for (name, text) in texts().into_iter().filter(|(name, _)| !name.starts_with(STORIES)) {
        for (line, word) in private(&text) {
            let is_exempt = |(page, (begin, end)): &(&str, (&str, &str))| {
                *page == name && [*begin, *end].concat() == word
            };
            if !EXEMPT.iter().any(is_exempt) {
                faults.push(format!(
                    "{name}:{line} `{word}` is private: use the protocol's word, or a plain one"
                ));
            }
        }
    }
    none(&faults);
}

#[test]
fn a_private_word_is_whole_and_in_its_case() {
    let samples = [
        (true, "Indeed, benchmarks in the_house, a work's laws, seated outdoors; the lawn.".to_owned()),
        (true, "It works at home: a bench, a parcel and a shelf.".to_owned()),
        (false, ["fn f(", "de", "ed: De", "ed)"].concat()),
        (false, ["\"The ", "la", "w's\""].concat()),
        (false, ["Behind the ", "door."].concat()),
        (false, ["HO", "USE-1"].concat()),
    ];
    for (is_plain, text) in samples {
        assert_eq!(private(&text).is_empty(), is_plain, "{text}");
    }
    let text = ["One\ntwo Se", "ats and a se", "at"].concat();
    assert_eq!(private(&text), [(2, ["Se", "ats"].concat()), (2, ["se", "at"].concat())]);
}
