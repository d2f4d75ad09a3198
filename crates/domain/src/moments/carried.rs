//! Where a question does not belong: a member `binding_moment` of what is said to many (binding moment §7.4). It is looked for
//! at any depth, because whoever shows what it got inspects each result for it (§7.2), wherever it was put.

use super::brief::WIRE;

/// Whether a JSON text has a member of that name, at any depth. It reads names as a JSON reader does, escapes included, and
/// takes in no values, so that it costs little; whether the text is JSON is the parser's affair.
#[must_use]
pub fn carries_question(json: &str) -> bool {
    // Nearly nothing that is said has the word, nor an escape that could stand for a letter of it.
    if !json.contains(WIRE) && !json.contains("\\u") {
        return false;
    }
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(open) = bytes.iter().skip(at).position(|byte| *byte == b'"').map(|more| at + more) {
        let close = closing(bytes, open + 1);
        at = close + 1;
        let follows = bytes.iter().skip(at).find(|byte| !byte.is_ascii_whitespace());
        let text = json.get(open..at).filter(|_| follows == Some(&b':'));
        if text.is_some_and(is_the_name) {
            return true;
        }
    }
    false
}

/// The place of the quote that ends a string, or the end of the text.
fn closing(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            None | Some(b'"') => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// Whether a string as it is written, with its quotes, is the name.
fn is_the_name(written: &str) -> bool {
    if written.contains('\\') {
        return serde_json::from_str::<String>(written).is_ok_and(|name| name == WIRE);
    }
    written.trim_matches('"') == WIRE
}
