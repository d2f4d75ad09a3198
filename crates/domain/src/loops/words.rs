//! The content of a message, as far as repetition needs it: a digest of its normalised text, and a sketch of its words.
//!
//! Two texts are the same if they differ only in case, white space, punctuation, ids, and numbers inside of prose: "Thank
//! you! (17)" and "thank you (18)". Numbers in data are content, so `{"square": 5}` and `{"square": 6}` differ.

use serde::{Deserialize, Serialize};

/// Bytes of a payload that are looked at: a loop shows in its first lines.
pub const READ_BYTES: usize = 4_096;

/// Words of a sketch: those with the smallest hashes, so that two sketches of the same words are equal (`MinHash`).
const WORDS: usize = 32;

/// Fewest words that are compared as a set; shorter texts have to be equal.
const COMPARED: usize = 5;

/// Letters that a word of prose has at least.
const LETTERS: usize = 2;

/// Words that make a string prose.
const PROSE: usize = 3;

/// Length and digits that make a word an id or a time: a UUID, a ULID, an RFC 3339 time.
const ID_BYTES: usize = 12;
const ID_DIGITS: usize = 4;

/// The normalised text of a message, in a form of bounded size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    /// Hash of all words in their order.
    text: u64,
    /// The smallest hashes of the distinct words, ascending.
    words: Vec<u32>,
}

impl Sketch {
    /// Reads a payload, or its beginning: JSON text.
    #[must_use]
    pub fn of(payload: &str) -> Self {
        let words = normalised(payload);
        let mut hashes: Vec<u32> = words.iter().map(|word| short(hash(word.as_bytes()))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(WORDS);
        Self { text: hash(words.join(" ").as_bytes()), words: hashes }
    }

    /// Whether two messages say the same: their text is equal, or four fifths of their words are.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        if self.text == other.text {
            return true;
        }
        let (mut mine, mut theirs) = (self.words.as_slice(), other.words.as_slice());
        let (mut all, mut common) = (0, 0);
        // Beyond the last word of a full sketch nothing is known of it.
        while all < WORDS {
            let (rest, other_rest) = match (mine, theirs) {
                ([], []) => break,
                ([one, rest @ ..], [other, other_rest @ ..]) if one == other => {
                    common += 1;
                    (rest, other_rest)
                }
                ([one, rest @ ..], [other, ..]) if one < other => (rest, theirs),
                ([_, rest @ ..], []) => (rest, theirs),
                (_, [_, other_rest @ ..]) => (mine, other_rest),
            };
            (mine, theirs) = (rest, other_rest);
            all += 1;
        }
        all >= COMPARED && common * 5 >= all * 4
    }
}

/// FNV-1a: fast, and the same on every server and in every release.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn short(hash: u64) -> u32 {
    u32::try_from((hash ^ (hash >> 32)) & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Returns the words of a payload in their order. It need not be whole JSON, because it may be cut.
#[must_use]
pub fn normalised(payload: &str) -> Vec<String> {
    let mut reading = Reading::default();
    let mut chars = payload.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if reading.in_string => {
                reading.end_word();
                // The letter of `\n` is no word; of `\u00e9` the code stays, and tells one from another.
                chars.next();
            }
            '"' => reading.quote(),
            c if c.is_alphanumeric() => reading.word.extend(c.to_lowercase()),
            '-' | '_' | ':' | '.' if !reading.word.is_empty() => reading.word.push(c),
            _ => reading.end_word(),
        }
    }
    reading.end_word();
    reading.end_string();
    reading.words
}

#[derive(Default)]
struct Reading {
    words: Vec<String>,
    /// Words of the string that is being read.
    of_string: Vec<String>,
    word: String,
    in_string: bool,
}

impl Reading {
    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        let word = word.trim_end_matches(['-', '_', ':', '.']);
        let digits = word.chars().filter(char::is_ascii_digit).count();
        if word.is_empty() || word.len() >= ID_BYTES && digits >= ID_DIGITS {
            return;
        }
        if self.in_string { &mut self.of_string } else { &mut self.words }.push(word.to_owned());
    }

    fn quote(&mut self) {
        self.end_word();
        if self.in_string {
            self.end_string();
        }
        self.in_string = !self.in_string;
    }

    /// Takes over the words of a string; those of prose without digits.
    fn end_string(&mut self) {
        let words = std::mem::take(&mut self.of_string);
        let is_word = |word: &&String| word.chars().filter(|c| c.is_alphabetic()).count() >= LETTERS;
        if words.iter().filter(is_word).count() < PROSE {
            self.words.extend(words);
            return;
        }
        let without_digits = words.iter().map(|word| word.chars().filter(|c| !c.is_numeric()).collect());
        self.words.extend(without_digits.filter(|word: &String| word.chars().any(char::is_alphabetic)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The comparison as it is defined: of the smallest words of both, four fifths are in both.
    fn defined(one: &Sketch, other: &Sketch) -> bool {
        let (mine, theirs) = (BTreeSet::from_iter(&one.words), BTreeSet::from_iter(&other.words));
        let all: Vec<_> = mine.union(&theirs).take(WORDS).collect();
        let common = all.iter().filter(|word| mine.contains(**word) && theirs.contains(**word)).count();
        one.text == other.text || all.len() >= COMPARED && common * 5 >= all.len() * 4
    }

    fn sketch() -> impl Strategy<Value = Sketch> {
        let words = prop::collection::btree_set(0_u32..48, 0..=WORDS);
        (0_u64..8, words).prop_map(|(text, words)| Sketch { text, words: words.into_iter().collect() })
    }

    proptest! {
        #[test]
        fn sketches_are_compared_as_sets(one in sketch(), other in sketch()) {
            prop_assert_eq!(one.repeats(&other), defined(&one, &other));
            prop_assert_eq!(other.repeats(&one), one.repeats(&other));
            prop_assert!(one.repeats(&one));
        }

        #[test]
        fn words_that_differ_little_are_repetitions(words in prop::collection::btree_set(0_u32..200, 20..=WORDS), gone in 0_usize..5) {
            let one = Sketch { text: 1, words: words.iter().copied().collect() };
            let other = Sketch { text: 2, words: words.iter().copied().skip(gone).collect() };
            prop_assert_eq!(one.repeats(&other), gone * 5 <= words.len());
        }
    }
}
