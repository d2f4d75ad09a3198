//! Searches of names as ranges: an index finds what lies between two texts, whatever is asked for.

use crate::limits::MEMORY_KEY_BYTES;

/// The texts that are `exact` and begin with `prefix`, where these are given, as a range of an index: from the first on, and
/// before the second. Of texts in which no character is a control character.
#[must_use]
pub fn range(exact: Option<&str>, prefix: Option<&str>) -> (String, String) {
    // Behind every text of as many bytes as a key may have.
    let end = || char::MAX.to_string().repeat(MEMORY_KEY_BYTES / char::MAX.len_utf8() + 1);
    let one = exact.map(|text| (text.to_owned(), format!("{text}\u{1}")));
    let all = prefix.map(|text| (text.to_owned(), behind(text).unwrap_or_else(end)));
    match (one, all) {
        (Some(one), Some(all)) => (one.0.max(all.0), one.1.min(all.1)),
        (given, None) | (None, given) => given.unwrap_or_else(|| (String::new(), end())),
    }
}

/// The first text behind all that begin with `prefix`, by the order of their characters; `None` when there is none.
fn behind(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The range of characters knows the gap of the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}
