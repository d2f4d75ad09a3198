//! Numbers in JSON text, and whether an IEEE 754 double holds them: RFC 8785 writes every number as a double.
//!
//! A parser turns a number into the nearest double without a word, so that two texts may get one canonical form. Below
//! 2^53 every reader does so alike, because a double holds every integer there. Beyond, a number counts as held if the
//! nearest double, written with as many digits, is that number again. This includes the canonical text of every double
//! (`295147905179352830000`), and excludes the integers between two doubles (`9007199254740993`).

use std::ops::Range;

/// 2^53: every integer below it is a double.
const DENSE: f64 = 9_007_199_254_740_992.0;

/// Significant digits of the longest double; a longer number is none.
const DIGITS: usize = 767;

/// Digits of an integer that is certainly below 2^53.
const SHORT: usize = 15;

/// A number that every JSON parser refuses to read as a value, and that may stand in text that is passed on.
const BEYOND: &[u8] = b"1e999";

/// Whether a double holds a JSON number, given as text; false for a text that is no number.
#[must_use]
pub fn holds(literal: &str) -> bool {
    let Ok(double) = literal.parse::<f64>() else { return false };
    if !double.is_finite() {
        return false;
    }
    if double.abs() < DENSE {
        return true;
    }
    let Some(number) = Decimal::parse(literal) else { return false };
    let Some(more) = number.digits.len().checked_sub(1).filter(|more| *more < DIGITS) else { return false };
    let rounded = format!("{:.more$e}", double.abs());
    let is = |text: &str| Decimal::parse(text).is_some_and(|written| written == number);
    // Of two shortest forms that are equally near, the canonical one may be the other.
    is(&rounded) || serde_json_canonicalizer::to_string(&double.abs()).is_ok_and(|canonical| is(&canonical))
}

/// The size of a decimal number without its sign; equal numbers have equal parts.
#[derive(PartialEq, Eq)]
struct Decimal {
    /// The digits from the first to the last that is not 0.
    digits: String,
    /// The power of ten of the first digit.
    place: i64,
}

impl Decimal {
    fn parse(literal: &str) -> Option<Self> {
        let text = literal.trim_start_matches('-');
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let zeros = digits.len() - digits.trim_start_matches('0').len();
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()? - 1;
        let place = exponent.parse::<i64>().ok()?.checked_add(point)?;
        Some(Self { digits: digits.trim_matches('0').to_owned(), place })
    }
}

/// Returns the first number in JSON text that no double holds.
#[must_use]
pub fn unheld(json: &[u8]) -> Option<&str> {
    Literals { json, at: 0 }.filter_map(|place| literal(json, &place)).find(|text| !holds(text))
}

/// As [`unheld`], only of numbers that a parser rounds: not of integers of 64 bits, which it keeps.
#[must_use]
pub fn rounded(json: &[u8]) -> Option<&str> {
    Literals { json, at: 0 }.filter_map(|place| literal(json, &place)).find(|text| is_rounded(text))
}

/// Returns the text with a number that cannot be parsed in place of each one that a parser rounds; `None` if there is
/// none, as in nearly all texts.
///
/// A parser that accepts the text and refuses this one would have changed a number; one that accepts both passes the
/// number on as text.
#[must_use]
pub fn marked(json: &[u8]) -> Option<Vec<u8>> {
    rounded(json)?;
    let mut text = Vec::with_capacity(json.len());
    let mut copied = 0;
    for place in (Literals { json, at: 0 }) {
        if literal(json, &place).is_some_and(is_rounded) {
            text.extend_from_slice(json.get(copied..place.start)?);
            text.extend_from_slice(BEYOND);
            copied = place.end;
        }
    }
    text.extend_from_slice(json.get(copied..)?);
    Some(text)
}

fn is_rounded(text: &str) -> bool {
    text.parse::<i64>().is_err() && text.parse::<u64>().is_err() && !holds(text)
}

/// Returns the number at a place, unless it is short and certainly held.
fn literal<'a>(json: &'a [u8], place: &Range<usize>) -> Option<&'a str> {
    let text = json.get(place.clone())?;
    if text.len() <= SHORT && !text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return None;
    }
    std::str::from_utf8(text).ok()
}

/// Places of the numbers in JSON text, outside of strings; the parser checks their syntax.
struct Literals<'a> {
    json: &'a [u8],
    at: usize,
}

impl Iterator for Literals<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while let Some(&byte) = self.json.get(self.at) {
            match byte {
                b'"' => self.pass_string(),
                b'-' | b'0'..=b'9' => {
                    let start = self.at;
                    let rest = self.json.get(start..)?;
                    let part = |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                    self.at += rest.iter().take_while(part).count();
                    return Some(start..self.at);
                }
                _ => self.at += 1,
            }
        }
        None
    }
}

impl Literals<'_> {
    /// Moves from a string's opening quote behind its closing one.
    fn pass_string(&mut self) {
        self.at += 1;
        while let Some(&byte) = self.json.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
    }
}
