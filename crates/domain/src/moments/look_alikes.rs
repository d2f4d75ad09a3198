//! Folds look-alike characters (UTS #39, confusable detection), so that texts that look the same to a reader are equal:
//! a Cyrillic "а" is a Latin "a", and an invisible character is nothing. `veto.rs` and `lints.rs` compare with it.
//!
//! Characters are folded to Latin letters, digits and ASCII punctuation, which are imitated most. Letters that resemble
//! each other within another script stay apart, because there they tell words apart. The fold is coarser than reading
//! all the same: without case, "i" is a capital "I" and so an "l". Two texts in plain ASCII are compared by their [`Shape`]
//! instead, which keeps "fail" and "fall" apart.

use unicode_general_category::{GeneralCategory as Category, get_general_category};
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

use super::words::{folded, is_ignored, key};

/// Maximum number of rounds of [`fold`]; three are enough for every character of Unicode.
const ROUNDS: usize = 8;

/// Number of [`readings`] of a text.
pub(super) const READINGS: usize = 3;

/// Folds a text: each character becomes the simplest one that looks like it, in lower case.
///
/// Folding the result changes nothing. A mark that makes another letter stays (`ö` is not `o`); one that only decorates
/// a Latin letter or a digit is removed, such as an underline or a stroke.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut text: String = text.chars().filter(|one| !is_ignored(*one)).collect();
    for _ in 0..ROUNDS {
        let next = round(&text);
        if next == text {
            break;
        }
        text = next;
    }
    text
}

/// Folds each character once. Case is folded last, because a capital has look-alikes of its own.
fn round(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Whether the last character is a Latin letter or a digit, which no further mark makes another letter.
    let mut is_latin = false;
    for one in text.nfc() {
        if is_mark(one) {
            if !is_latin {
                shown.push(one);
            }
            continue;
        }
        match look(one) {
            Some(look) => shown.push_str(&look),
            None => shown.push(one),
        }
        is_latin = shown.chars().next_back().is_some_and(|last| base(last).is_ascii_alphanumeric());
    }
    // UTS #39 equates "I" with "l" and leaves "i"; without case all three are one.
    folded(&shown).replace('i', "l")
}

/// Returns the characters that a character looks like; `None` if it stays.
///
/// An accented letter becomes another accented letter, or stays: as a letter with a decoration, it would lose its mark.
fn look(one: char) -> Option<String> {
    let mut parts = one.nfd();
    let base = parts.next()?;
    let marks: String = parts.collect();
    if marks.is_empty() {
        return prototype(base);
    }
    if base.is_ascii() {
        return None;
    }
    let accented: String = (prototype(base)? + &marks).nfc().collect();
    (accented.chars().count() == 1).then_some(accented)
}

/// Returns the characters that stand for all look-alikes of a character (UTS #39 §4), if they are in the target of the
/// fold.
fn prototype(one: char) -> Option<String> {
    if one.is_ascii() && !one.is_ascii_alphanumeric() {
        return None;
    }
    let look: String = skeleton(one.encode_utf8(&mut [0; 4])).collect();
    let all = |is: fn(char) -> bool| look.chars().all(is);
    let folds = all(|one| one.is_ascii_alphanumeric())
        || !one.is_alphanumeric() && all(|one| one.is_ascii_punctuation())
        || one.is_alphanumeric() && !is_latin(one) && all(is_latin);
    (folds && !look.is_empty()).then_some(look)
}

/// Returns the first character of the canonical decomposition.
fn base(one: char) -> char {
    one.nfd().next().unwrap_or(one)
}

fn is_mark(one: char) -> bool {
    matches!(
        get_general_category(one),
        Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark
    )
}

/// Returns whether a character is a letter of a block for Latin.
fn is_latin(one: char) -> bool {
    let in_block = matches!(one,
        'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{2af}' | '\u{1d00}'..='\u{1dbf}' | '\u{1e00}'..='\u{1eff}'
            | '\u{2c60}'..='\u{2c7f}' | '\u{a720}'..='\u{a7ff}' | '\u{ab30}'..='\u{ab6f}');
    in_block && one.is_alphabetic()
}

/// Returns the ways to read a text: as it is, by the looks of its characters, and by the looks of their lower case.
///
/// A capital may look like another letter than its lower case: "Н" looks like "H", and "н" does not look like "h".
pub(super) fn readings(text: &str) -> [String; READINGS] {
    [text.to_owned(), fold(text), fold(&folded(text))]
}

/// Stands in a [`Shape`] for "I", which has the look of "l" and is "i" without case. Case and compatibility forms leave it.
const CAPITAL_I: char = 'ı';

/// The looks of a text in plain ASCII, without case and punctuation: "De1ete" and "DELETE" are alike, and so are "100",
/// "1OO" and "lOO".
///
/// UTS #39 (`confusables.txt`) knows five look-alikes there: "0" and "O", "1", "I" and "|" and "l", "m" and "rn". No two
/// digits are alike, so numbers that differ stay apart. Words such as "modem" and "modern" are alike: a question that
/// differs from a refused one in nothing else is refused, and other words are easily found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape(String);

impl Shape {
    pub(super) fn of(text: &str) -> Self {
        let mut shown = String::with_capacity(text.len());
        for one in text.nfkc() {
            match one {
                '0' => shown.push('o'),
                '1' | '|' => shown.push('l'),
                'I' => shown.push(CAPITAL_I),
                'm' | 'M' => shown.push_str("rn"),
                other => shown.push(other),
            }
        }
        Self(key(&shown))
    }

    /// Returns whether every character is the same or has the same look. That is not transitive: "I" is like "i" and
    /// like "l".
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_like = |one: char, other: char| {
            one == other
                || one == CAPITAL_I && matches!(other, 'i' | 'l')
                || other == CAPITAL_I && matches!(one, 'i' | 'l')
        };
        let Self(one) = self;
        let Self(other) = other;
        one.chars().count() == other.chars().count()
            && one.chars().zip(other.chars()).all(|(one, other)| is_like(one, other))
    }
}

/// Returns whether two texts are the same in any of their [`readings`]; two plain ones only as they are.
pub(super) fn agree<T>(
    one: &[T; READINGS],
    other: &[T; READINGS],
    are_plain: bool,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let count = if are_plain { 1 } else { READINGS };
    one.iter().zip(other).take(count).any(|(one, other)| same(one, other))
}
