//! Inserts parameters into a URL's path and query, such that none can escape its position.

use serde_json::{Map, Value};
use url::Url;

use super::not_so;
use crate::limits::URL_BYTES;
use crate::refusal::Refusal;

/// Returns whether a connection may have this path.
pub(super) fn lawful(path: &str) -> bool {
    let (way, _query) = path.split_once('?').unwrap_or((path, ""));
    let dots = |part: &str| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    };
    let plain = !path.contains(['#', '\\']) && !path.chars().any(|c| c.is_control() || c == ' ');
    path.len() <= URL_BYTES
        && way.starts_with('/')
        && !way.starts_with("//")
        && plain
        && !way.split('/').any(dots)
}

/// Converts a scalar parameter to text.
fn scalar(name: &str, value: &Value) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(yes) => Ok(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(not_so(format!("The parameter `{name}` must be a text, a number or a truth value here.")))
        }
    }
}

/// Encodes a parameter as one path segment.
fn part(name: &str, text: &str) -> Result<String, Refusal> {
    if text.is_empty() || text == "." || text == ".." {
        return Err(not_so(format!("The parameter `{name}` cannot be a part of a path.")));
    }
    let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    Ok(encoded.replace('+', "%20"))
}

/// Appends an endpoint's path to a base, and removes the parameters used for its placeholders `{name}`.
pub(super) fn extend(url: &mut Url, path: &str, left: &mut Map<String, Value>) -> Result<(), Refusal> {
    let (way, query) = path.split_once('?').map_or((path, None), |(way, query)| (way, Some(query)));
    let mut filled = String::new();
    let mut rest = way;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, behind) =
            after.split_once('}').ok_or_else(|| not_so("The endpoint's path has a `{` without its `}`."))?;
        let value = left.remove(name).ok_or_else(|| {
            not_so(format!("The tool needs the parameter `{name}`, which is a part of its path."))
        })?;
        filled.push_str(before);
        filled.push_str(&part(name, &scalar(name, &value)?)?);
        rest = behind;
    }
    filled.push_str(rest);
    // Inserted values may have formed a dot segment together with the surrounding text.
    if !lawful(&filled) {
        return Err(not_so("The parameters make a path that cannot be."));
    }
    let way = format!("{}{filled}", url.path().trim_end_matches('/'));
    url.set_path(&way);
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        let before = url.query().map(|before| format!("{before}&")).unwrap_or_default();
        url.set_query(Some(&format!("{before}{query}")));
    }
    Ok(())
}

/// Appends a tool's name as the last segment of a base's path.
pub(super) fn segment(url: &mut Url, tool: &str) -> Result<(), Refusal> {
    let way = format!("{}/{}", url.path().trim_end_matches('/'), part("tool_name", tool)?);
    url.set_path(&way);
    Ok(())
}

/// Appends parameters to a query; a list gives one pair per item.
pub(super) fn query(url: &mut Url, left: &Map<String, Value>) -> Result<(), Refusal> {
    for (name, value) in left {
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for item in items {
            let text = scalar(name, item)?;
            url.query_pairs_mut().append_pair(name, &text);
        }
    }
    Ok(())
}
