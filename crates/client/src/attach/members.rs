//! JSON files of the user that are changed in one place: objects whose members keep their order and their own text.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Spaces of one level.
const INDENT: usize = 2;

/// Members of an object in the order of the file, each with the text of its value.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

impl Members {
    /// Returns the text of a member.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Sets a member in its place, or at the end; `None` removes it.
    pub(super) fn set(&mut self, name: &str, text: Option<String>) -> Result<(), serde_json::Error> {
        let Some(text) = text else {
            self.0.retain(|(key, _)| key != name);
            return Ok(());
        };
        let value = RawValue::from_string(text)?;
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Renders the object at a depth.
    pub(super) fn render(&self, depth: usize) -> String {
        let members =
            self.0.iter().map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), value.get()));
        block('{', '}', members, depth)
    }
}

/// Renders an array at a depth.
pub(super) fn array(items: &[Box<RawValue>], depth: usize) -> String {
    block('[', ']', items.iter().map(|item| item.get().to_owned()), depth)
}

/// Renders a value at a depth.
pub(super) fn pretty(value: &Value, depth: usize) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(value)?.replace('\n', &format!("\n{}", " ".repeat(depth * INDENT))))
}

fn block(open: char, close: char, parts: impl Iterator<Item = String>, depth: usize) -> String {
    let outer = " ".repeat(depth * INDENT);
    let inner = " ".repeat((depth + 1) * INDENT);
    let parts: Vec<String> = parts.map(|part| format!("{inner}{part}")).collect();
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    format!("{open}\n{}\n{outer}{close}", parts.join(",\n"))
}
