//! Translates searches for names into index ranges, so that every search uses the index.

use crate::limits::MEMORY_KEY_BYTES;

/// Returns the index range of the texts that equal `exact` and begin with `prefix`, where these are given.
///
/// The start is inclusive, the end exclusive. Assumes texts without control characters.
#[must_use]
pub fn range(exact: Option<&str>, prefix: Option<&str>) -> (String, String) {
    // Sorts after every text of as many bytes as a key may have.
    let end = || char::MAX.to_string().repeat(MEMORY_KEY_BYTES / char::MAX.len_utf8() + 1);
    let one = exact.map(|text| (text.to_owned(), format!("{text}\u{1}")));
    let all = prefix.map(|text| (text.to_owned(), behind(text).unwrap_or_else(end)));
    match (one, all) {
        (Some(one), Some(all)) => (one.0.max(all.0), one.1.min(all.1)),
        (given, None) | (None, given) => given.unwrap_or_else(|| (String::new(), end())),
    }
}

/// Returns the first text after all texts with this prefix, in character order; `None` if there is none.
fn behind(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The range of characters skips the gap of the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return Some(text);
        }
    }
    None
}
