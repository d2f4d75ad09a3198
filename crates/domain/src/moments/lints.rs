//! Style suggestions for questions. A lint never refuses a question: text that triggers one can be right ("the vendor
//! may close the window" is a fact, no hedge), and text that triggers none can be wrong. The error rates are unknown.
//!
//! Lexical lints only know English (phrases, stems, stop words). They skip texts in which fewer than nine in ten
//! letters are ASCII. Another language in those letters is treated as English, and mostly triggers nothing.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::brief::{Brief, Choice};
use super::look_alikes::{READINGS, agree, readings};
use super::phrases::{CONSIDERATIONS, HATCH_BEGINNINGS, HATCHES, HEDGES, LEADING, has_phrase, sentences};
use super::words::{content, is_english, key, shared, stem, words};

/// Severity of a lint.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[schema(as = LintLevel)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Worth changing.
    Warn,
}

/// One suggestion; it quotes nothing of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Lint {
    /// Stable code such as `synopsis.hedge_phrase`.
    pub code: &'static str,
    /// Severity.
    pub level: Level,
    /// Location, a JSON Pointer (RFC 6901) into the question.
    pub at: String,
    /// Explanation.
    pub note: String,
}

/// All lints with severity and explanation.
pub const LINTS: [(&str, Level, &str); 19] = [
    ("synopsis.not_one_sentence", Level::Warn, "the synopsis should be one sentence (§5.1)"),
    ("synopsis.is_question", Level::Warn, "the synopsis states a position; the question is the stem (§5.1)"),
    (
        "synopsis.hedge_phrase",
        Level::Warn,
        "this puts the decision off; commit to a position, or deliberate instead of asking (§5.1)",
    ),
    (
        "synopsis.favours_other_option",
        Level::Warn,
        "the synopsis speaks of another option than the recommended one; words and mark disagree (§5.7)",
    ),
    (
        "synopsis.no_overlap_with_recommended",
        Level::Info,
        "the synopsis has no word of the recommended option; see that they say the same (§5.7)",
    ),
    ("findings.count", Level::Info, "three to six findings are recommended (§5.2)"),
    (
        "findings.long",
        Level::Info,
        "a finding is one terse observation, the least that the decision needs (§12)",
    ),
    (
        "findings.restates_synopsis",
        Level::Warn,
        "this finding says nothing that the synopsis does not (§5.2)",
    ),
    ("findings.duplicate", Level::Warn, "this finding says what one before it says (§5.2)"),
    ("recommendations.count", Level::Info, "two to four recommendations are recommended (§5.3)"),
    (
        "recommendations.consideration",
        Level::Warn,
        "this names a thing to think about; a recommendation is an action that changes something (§5.3)",
    ),
    ("stem.leading_phrase", Level::Warn, "the question should not lean; the mark on the option does (§5.5)"),
    (
        "stem.names_only_recommended",
        Level::Info,
        "the question has words of the recommended option and of no other; see that it is neutral (§5.5)",
    ),
    (
        "options.duplicates_hatch",
        Level::Warn,
        "this is an escape hatch, which is there anyway; leave it out (§5.6)",
    ),
    ("options.duplicate_labels", Level::Warn, "this option is called what one before it is called (§5.6)"),
    (
        "options.marks_itself",
        Level::Warn,
        "an option does not say itself that it is recommended; the mark does, on one only (§5.7)",
    ),
    ("options.reasoning_lines", Level::Info, "the reasoning of an option is a single line (§5.6)"),
    (
        "near_duplicate_after_veto",
        Level::Warn,
        "this is nearly a question that the principal refused; answer the objection instead of asking again (§6.2)",
    ),
    ("hatches.closed", Level::Info, "a closed hatch takes a veto from the principal; it is recorded (§5.8)"),
];

/// Returns a lint at a location.
pub(super) fn found(code: &'static str, at: impl Into<String>) -> Lint {
    let known = LINTS.iter().find(|(one, ..)| *one == code);
    let (level, note) = known.map_or((Level::Warn, ""), |(_, level, note)| (*level, *note));
    Lint { code, level, at: at.into(), note: note.to_owned() }
}

/// Length in bytes above which a finding counts as long.
const LONG_FINDING: usize = 300;

/// Returns the suggestions for a question.
#[must_use]
pub fn lint(brief: &Brief) -> Vec<Lint> {
    let mut lints = Vec::new();
    synopsis(&mut lints, brief);
    findings(&mut lints, brief);
    recommendations(&mut lints, brief);
    stem_of(&mut lints, brief);
    options(&mut lints, &brief.question.options);
    let hatches = brief.question.hatches;
    if !(hatches.free_text && hatches.dialogue) {
        lints.push(found("hatches.closed", "/question/hatches"));
    }
    lints
}

fn synopsis(lints: &mut Vec<Lint>, brief: &Brief) {
    let at = "/synopsis";
    let text = brief.synopsis.as_str();
    if text.contains(['?', '？']) {
        lints.push(found("synopsis.is_question", at));
    }
    if !is_english(text) {
        return;
    }
    if sentences(text) > 1 {
        lints.push(found("synopsis.not_one_sentence", at));
    }
    if has_phrase(&words(text), &HEDGES) {
        lints.push(found("synopsis.hedge_phrase", at));
    }
    let options = &brief.question.options;
    if !options.iter().all(|option| is_english(&option.label)) {
        return;
    }
    let said = content(text);
    let overlap = |option: &Choice| shared(&content(&option.label), &said);
    let marked = brief.question.recommended_idx;
    let Some(own) = options.get(marked).map(overlap) else { return };
    let others = options.iter().enumerate().filter(|(index, _)| *index != marked);
    if others.map(|(_, option)| overlap(option)).any(|other| other > own) {
        lints.push(found("synopsis.favours_other_option", at));
    } else if own == 0 {
        lints.push(found("synopsis.no_overlap_with_recommended", at));
    }
}

/// Content words of a text and the numbers among them.
///
/// Findings with different numbers are different findings, however alike the words. Words are interned as integers,
/// because all findings are compared pairwise.
struct ContentWords {
    words: Vec<usize>,
    numbers: Vec<usize>,
}

impl ContentWords {
    fn of(text: &str, known: &mut HashMap<String, usize>) -> Option<Self> {
        if !is_english(text) {
            return None;
        }
        let (mut words, mut numbers) = (Vec::new(), Vec::new());
        for word in content(text) {
            let is_number = word.bytes().any(|byte| byte.is_ascii_digit());
            let next = known.len();
            let word = *known.entry(word).or_insert(next);
            words.push(word);
            numbers.extend(is_number.then_some(word));
        }
        words.sort_unstable();
        numbers.sort_unstable();
        Some(Self { words, numbers })
    }

    /// Returns whether nearly all of it is contained in the other, or both are nearly equal.
    fn is_in(&self, other: &Self) -> bool {
        let both = shared(&self.words, &other.words);
        let all = self.words.len() + other.words.len() - both;
        // A single common word is not a repetition.
        let contained = self.words.len() > 1 && both * 10 >= self.words.len() * 8;
        let alike = all > 0 && both * 10 >= all * 6;
        (contained || alike) && shared(&self.numbers, &other.numbers) == self.numbers.len()
    }
}

fn findings(lints: &mut Vec<Lint>, brief: &Brief) {
    if !(3..=6).contains(&brief.findings.len()) {
        lints.push(found("findings.count", "/findings"));
    }
    let mut known = HashMap::new();
    let synopsis = ContentWords::of(&brief.synopsis, &mut known);
    let mut before: Vec<(String, Option<ContentWords>)> = Vec::new();
    for (index, finding) in brief.findings.iter().enumerate() {
        let at = format!("/findings/{index}");
        let (key, words) = (key(finding), ContentWords::of(finding, &mut known));
        let in_synopsis = words.as_ref().zip(synopsis.as_ref()).is_some_and(|(one, other)| one.is_in(other));
        if finding.len() > LONG_FINDING {
            lints.push(found("findings.long", at.as_str()));
        }
        if in_synopsis {
            lints.push(found("findings.restates_synopsis", at.as_str()));
        }
        let repeats = |(other_key, other): &(String, Option<ContentWords>)| {
            let alike = words.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one.is_in(other));
            *other_key == key || alike
        };
        if before.iter().any(repeats) {
            lints.push(found("findings.duplicate", at));
        }
        before.push((key, words));
    }
}

fn recommendations(lints: &mut Vec<Lint>, brief: &Brief) {
    if !(2..=4).contains(&brief.recommendations.len()) {
        lints.push(found("recommendations.count", "/recommendations"));
    }
    for (index, move_) in brief.recommendations.iter().enumerate().filter(|(_, text)| is_english(text)) {
        let mut said = words(move_);
        if let Some(first) = said.first_mut() {
            *first = stem(first);
        }
        let begins = |phrase: &str| {
            let mut phrase = words(phrase);
            if let Some(first) = phrase.first_mut() {
                *first = stem(first);
            }
            said.starts_with(&phrase)
        };
        if CONSIDERATIONS.iter().any(|phrase| begins(phrase)) {
            lints.push(found("recommendations.consideration", format!("/recommendations/{index}")));
        }
    }
}

fn stem_of(lints: &mut Vec<Lint>, brief: &Brief) {
    let at = "/question/stem";
    let stem = brief.question.stem.as_str();
    if !is_english(stem) {
        return;
    }
    let lower = stem.trim_end().to_ascii_lowercase();
    let tag = lower.strip_suffix("right?").is_some_and(|before| before.trim_end().ends_with(','));
    if tag || has_phrase(&words(stem), &LEADING) {
        lints.push(found("stem.leading_phrase", at));
    }
    let options = &brief.question.options;
    if !options.iter().all(|option| is_english(&option.label)) {
        return;
    }
    let said = content(stem);
    let labels: Vec<Vec<String>> = options.iter().map(|option| content(&option.label)).collect();
    // Words of one label that appear in no other.
    let names = |index: usize| {
        labels[index].iter().any(|word| {
            let elsewhere = labels.iter().enumerate().any(|(at, label)| at != index && label.contains(word));
            !elsewhere && said.contains(word)
        })
    };
    let named: Vec<usize> = (0..labels.len()).filter(|index| names(*index)).collect();
    if named == [brief.question.recommended_idx] {
        lints.push(found("stem.names_only_recommended", at));
    }
}

fn options(lints: &mut Vec<Lint>, options: &[Choice]) {
    let keys: Vec<[String; READINGS]> =
        options.iter().map(|option| readings(&option.label).map(|label| key(&label))).collect();
    let looks_same = |one: &[String; READINGS], other: &[String; READINGS]| {
        agree(one, other, one[0].is_ascii() && other[0].is_ascii(), |one, other| one == other)
    };
    for (index, option) in options.iter().enumerate() {
        let at = |member: &str| format!("/question/options/{index}/{member}");
        let label = words(&option.label);
        let is = |phrase: &str| words(phrase) == label;
        let begins = |phrase: &str| label.starts_with(&words(phrase));
        if HATCHES.iter().any(|phrase| is(phrase)) || HATCH_BEGINNINGS.iter().any(|phrase| begins(phrase)) {
            lints.push(found("options.duplicates_hatch", at("label")));
        }
        if keys[..index].iter().any(|before| looks_same(before, &keys[index])) {
            lints.push(found("options.duplicate_labels", at("label")));
        }
        let mark = |text: &str| {
            let text = text.to_lowercase();
            ["(recommended)", "[recommended]", "recommended:", "recommended option"]
                .iter()
                .any(|m| text.contains(m))
        };
        for (member, text) in [("label", &option.label), ("reasoning", &option.reasoning)] {
            if mark(text) {
                lints.push(found("options.marks_itself", at(member)));
            }
        }
        if option.reasoning.trim_end().contains('\n') {
            lints.push(found("options.reasoning_lines", at("reasoning")));
        }
    }
}
