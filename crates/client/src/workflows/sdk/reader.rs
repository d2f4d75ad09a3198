//! Reading of a workflow of the SDK, member by member: collects all faults and remarks, each with its position.

use serde_json::Value;

use super::super::faults::{Fault, Place};
use super::super::tree::{Content, Node};
use super::types::{Note, Treatment};

/// Reason for members that neither Entente nor the SDK knows.
const UNKNOWN: &str = "neither Entente nor the SDK knows this key; check its spelling";

/// State of reading: faults and remarks so far.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) faults: Vec<Fault>,
    pub(super) notes: Vec<Note>,
}

impl Reader {
    pub(super) fn fault(&mut self, place: Option<Place>, path: &str, message: impl Into<String>) {
        self.faults.push(Fault::of(place, path, message));
    }

    pub(super) fn note(&mut self, node: &Node, path: &str, treatment: Treatment, why: impl Into<String>) {
        let (path, why) = (path.to_owned(), why.into());
        self.notes.push(Note { place: node.place, path, treatment, why });
    }

    /// Notes the members of a table that are not in `known`.
    pub(super) fn unknown(&mut self, node: &Node, path: &str, known: &[&str]) {
        for (key, member) in node.members().iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.note(member, &path, Treatment::Ignored, UNKNOWN);
        }
    }

    /// Returns the members of a table; a fault if it is anything else.
    pub(super) fn table<'n>(&mut self, node: &'n Node, path: &str) -> &'n [(String, Node)] {
        if !node.is_null() && !matches!(node.content, Content::Table(_)) {
            self.fault(node.place, path, "this must be a table of `key: value` lines");
        }
        node.members()
    }

    /// Returns a text; numbers and booleans are texts to the SDK as well.
    pub(super) fn text(&mut self, node: &Node, path: &str) -> Option<String> {
        match &node.content {
            Content::Scalar(Value::String(text)) => Some(text.clone()),
            Content::Scalar(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Content::Scalar(_) => None,
            Content::List(_) | Content::Table(_) => {
                self.fault(node.place, path, "this must be a text");
                None
            }
        }
    }

    /// Returns a list of texts.
    pub(super) fn texts(&mut self, node: &Node, path: &str) -> Vec<String> {
        match &node.content {
            Content::List(items) => items.iter().filter_map(|item| self.text(item, path)).collect(),
            Content::Scalar(Value::Null) => Vec::new(),
            Content::Scalar(_) | Content::Table(_) => {
                self.fault(node.place, path, "this must be a list, such as `[a, b]`");
                Vec::new()
            }
        }
    }

    /// Returns a number of at least 0, as the file has it.
    pub(super) fn amount(&mut self, node: &Node, path: &str) -> Option<Value> {
        match &node.content {
            Content::Scalar(value @ Value::Number(number)) if number.as_f64().is_some_and(|n| n >= 0.0) => {
                Some(value.clone())
            }
            _ => {
                self.fault(node.place, path, "this must be a number of at least 0");
                None
            }
        }
    }

    /// Returns a whole number that the server can take.
    pub(super) fn count(&mut self, node: &Node, path: &str) -> Option<u32> {
        let number = match &node.content {
            Content::Scalar(value) => value.as_u64().and_then(|number| u32::try_from(number).ok()),
            Content::List(_) | Content::Table(_) => None,
        };
        if number.is_none() {
            self.fault(node.place, path, "this must be a whole number of at least 0");
        }
        number
    }
}
