//! Detects a member `binding_moment` in content for many recipients, where a question must not appear (binding moment
//! §7.4). Searches at any depth, because surfaces inspect each result for one (§7.2).

/// Wire name of the member that contains a question.
pub const MEMBER: &str = "binding_moment";

/// Returns whether a JSON text has a member `binding_moment` at any depth.
///
/// Member names are compared with escapes decoded; values are skipped, so the scan is cheap. It does not validate the JSON.
#[must_use]
pub fn carries_question(json: &str) -> bool {
    // Fast path: almost no text contains the name, or an escape that could stand for one of its characters.
    if !json.contains(MEMBER) && !json.contains("\\u") {
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

/// Returns the position of the closing quote of a string, or a position at or after the end of the text.
fn closing(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            None | Some(b'"') => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// Returns whether a quoted JSON string is the member name.
fn is_the_name(written: &str) -> bool {
    if written.contains('\\') {
        return serde_json::from_str::<String>(written).is_ok_and(|name| name == MEMBER);
    }
    written.trim_matches('"') == MEMBER
}
