//! Where parameters get into a URL: into a path's places and into its query. None can leave the place that it is put into.

use serde_json::{Map, Value};
use url::Url;

use super::not_so;
use crate::limits::URL_BYTES;
use crate::refusal::Refusal;

/// Whether a path is one that a connection may have.
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

/// A parameter as a piece of text.
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

/// One part of a path.
fn part(name: &str, text: &str) -> Result<String, Refusal> {
    if text.is_empty() || text == "." || text == ".." {
        return Err(not_so(format!("The parameter `{name}` cannot be a part of a path.")));
    }
    let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    Ok(encoded.replace('+', "%20"))
}

/// Adds an endpoint's path to a base; a parameter whose `{name}` it has goes there, and is not left.
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
    // What was filled in may have made a part of dots together with what stood around it.
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

/// Adds a tool's name as the last part of a base's path.
pub(super) fn segment(url: &mut Url, tool: &str) -> Result<(), Refusal> {
    let way = format!("{}/{}", url.path().trim_end_matches('/'), part("tool_name", tool)?);
    url.set_path(&way);
    Ok(())
}

/// Adds parameters to a query: a list as one pair for each of its items.
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
