//! English phrase lists for the lints (`lints.rs`), matched word by word, and a sentence counter.

use super::words::words;

/// Phrases in a synopsis that avoid a decision; not bare modals (`may`, `might`, `could`), which also state facts.
pub(super) const HEDGES: [&str; 27] = [
    "it depends",
    "could go either way",
    "can go either way",
    "either option works",
    "either way works",
    "either would work",
    "your call",
    "up to you",
    "you decide",
    "you should decide",
    "need more information",
    "needs more information",
    "need more context",
    "need more data",
    "need more time to decide",
    "not sure",
    "unsure",
    "hard to say",
    "too early to say",
    "too early to tell",
    "we may want to",
    "we might want to",
    "you may want to",
    "you might want to",
    "on the fence",
    "no strong preference",
    "cannot decide",
];

/// Openings of a recommendation that is not an action.
pub(super) const CONSIDERATIONS: [&str; 14] = [
    "consider",
    "weigh",
    "evaluate",
    "explore",
    "assess",
    "ponder",
    "contemplate",
    "think",
    "reflect on",
    "look into",
    "keep in mind",
    "bear in mind",
    "be aware",
    "be mindful",
];

/// Phrases that make a question leading.
pub(super) const LEADING: [&str; 17] = [
    "shouldn't we",
    "shouldn't I",
    "shouldn't you",
    "should not we",
    "wouldn't it be better",
    "isn't it better",
    "isn't it time",
    "don't you think",
    "don't you agree",
    "surely",
    "obviously",
    "of course",
    "clearly",
    "as recommended",
    "as I recommend",
    "I recommend",
    "we recommend",
];

/// Options that duplicate a hatch: whole labels, then beginnings of labels.
pub(super) const HATCHES: [&str; 15] = [
    "other",
    "something else",
    "none of the above",
    "none of these",
    "let's discuss",
    "let us discuss",
    "let's talk",
    "let us talk",
    "discuss",
    "discuss first",
    "discuss further",
    "wrong question",
    "own words",
    "custom answer",
    "free text",
];
pub(super) const HATCH_BEGINNINGS: [&str; 6] =
    ["other please", "let's discuss", "let us discuss", "let's talk", "let us talk", "write your own"];

/// Returns whether the text contains one of the phrases as consecutive words.
pub(super) fn has_phrase(said: &[String], phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| {
        let phrase = words(phrase);
        said.windows(phrase.len()).any(|part| part == phrase)
    })
}

/// Abbreviations whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 14] =
    ["e.g", "i.e", "etc", "vs", "cf", "no", "approx", "dr", "mr", "mrs", "ms", "st", "inc", "ltd"];

/// Counts sentences: a sentence ends at `.`, `!` or `?` followed by a blank and an upper-case letter or digit.
pub(super) fn sentences(text: &str) -> usize {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let ends = |(word, next): (&&str, &&str)| {
        let word = word.trim_end_matches(['"', '\'', ')', '”', '’']);
        let Some(bare) = word.strip_suffix(['.', '!', '?']) else { return false };
        let begins = next.chars().find(|one| one.is_alphanumeric());
        let bare = bare.trim_start_matches(['(', '"', '\'']).to_ascii_lowercase();
        // A single letter is an initial ("U.S." has inner full stops, and so has "e.g.").
        let letters = bare.chars().all(|one| one.is_alphabetic() || one == '.');
        let initial = word.ends_with('.') && letters && (bare.chars().count() == 1 || bare.contains('.'));
        let short = word.ends_with('.') && ABBREVIATIONS.contains(&bare.as_str());
        begins.is_some_and(|one| one.is_uppercase() || one.is_ascii_digit()) && !initial && !short
    };
    1 + parts.iter().zip(parts.iter().skip(1)).filter(|pair| ends(*pair)).count()
}
