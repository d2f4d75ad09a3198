//! YAML as a tree in which each value has its position, for a form that is read member by member.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use super::faults::{self, Place};

/// A value with its position; for a member of a table, the position of its key.
#[derive(Debug)]
pub(super) struct Node {
    pub place: Option<Place>,
    pub content: Content,
}

/// Content of a node.
#[derive(Debug)]
pub(super) enum Content {
    /// Null, a boolean, a number or a text.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Parses a file.
    ///
    /// # Errors
    /// The parser's error.
    pub(super) fn read(text: &str) -> Result<Self, serde_saphyr::Error> {
        let options = serde_saphyr::options! { with_snippet: false };
        let tree = serde_saphyr::from_str_with_options::<Spanned<Tree>>(text, options)?;
        Ok(Self::located(tree, &text.lines().collect::<Vec<_>>()))
    }

    fn located(tree: Spanned<Tree>, lines: &[&str]) -> Self {
        let place = faults::place(tree.referenced);
        let content = match tree.value {
            Tree::Scalar(value) => Content::Scalar(value),
            Tree::List(items) => {
                Content::List(items.into_iter().map(|item| Self::located(item, lines)).collect())
            }
            Tree::Table(members) => {
                let located = |member| {
                    let (key, tree): (String, Spanned<Tree>) = member;
                    let key_at = key_place(lines, tree.referenced, &key);
                    let node = Self::located(tree, lines);
                    let place = key_at.or(node.place);
                    (key, Self { place, ..node })
                };
                Content::Table(members.into_iter().map(located).collect())
            }
        };
        Self { place, content }
    }

    /// Returns the members of a table; none for anything else.
    pub(super) fn members(&self) -> &[(String, Self)] {
        match &self.content {
            Content::Table(members) => members,
            Content::Scalar(_) | Content::List(_) => &[],
        }
    }

    /// Returns a member of a table, unless it is null.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let found = self.members().iter().find(|(name, _)| name == key);
        found.map(|(_, node)| node).filter(|node| !node.is_null())
    }

    /// Returns whether the value is null or missing.
    pub(super) fn is_null(&self) -> bool {
        matches!(self.content, Content::Scalar(Value::Null))
    }

    /// Returns a text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(value) => value.as_str(),
            Content::List(_) | Content::Table(_) => None,
        }
    }

    /// Returns the value without positions.
    pub(super) fn value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Table(members) => {
                Value::Object(members.iter().map(|(key, node)| (key.clone(), node.value())).collect())
            }
        }
    }

    /// Returns the members of a table without positions.
    pub(super) fn object(&self) -> Map<String, Value> {
        self.members().iter().map(|(key, node)| (key.clone(), node.value())).collect()
    }
}

/// Returns the position of the key of a value that is at a location: on the same line before it, or alone on the
/// previous line that has content.
fn key_place(lines: &[&str], value: Location, key: &str) -> Option<Place> {
    let (line, column) = faults::place(value)?;
    let last = usize::try_from(line).ok()?.checked_sub(1)?;
    let before: String =
        lines.get(last)?.chars().take(usize::try_from(column).ok()?.checked_sub(1)?).collect();
    if let Some(column) = key_column(&before, key) {
        return Some((line, column));
    }
    let earlier = lines.get(..last)?.iter().enumerate().rev();
    let mut earlier =
        earlier.filter(|(_, line)| !matches!(line.trim_start().chars().next(), None | Some('#')));
    let (index, line) = earlier.next()?;
    Some((u64::try_from(index).ok()? + 1, key_column(line.split(" #").next()?, key)?))
}

/// Returns the column of the key at the end of a text: `…key:`.
fn key_column(text: &str, key: &str) -> Option<u64> {
    let text = text.trim_end().strip_suffix(':')?.trim_end();
    let before = text.strip_suffix(['"', '\'']).unwrap_or(text).strip_suffix(key)?;
    u64::try_from(before.chars().count()).ok().map(|letters| letters + 1)
}

/// The tree as the parser yields it.
enum Tree {
    Scalar(Value),
    List(Vec<Spanned<Self>>),
    Table(Vec<(String, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Tree::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut table: Vec<(String, Spanned<Tree>)> = Vec::new();
        while let Some(key) = members.next_key::<String>()? {
            table.push((key, members.next_value()?));
        }
        Ok(Tree::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "a: 1\nb:   # what follows\n\n  c: [x, { d: null }]\n  \"e\": 2.5\nf: 'yes'\ng:\n";

    #[test]
    fn values_are_as_the_file_has_them() {
        let read = Node::read(FILE).unwrap();
        let expected = json!({ "a": 1, "b": { "c": ["x", { "d": null }], "e": 2.5 }, "f": "yes", "g": null });
        assert_eq!(read.value(), expected);
        assert!(read.get("g").is_none() && read.get("h").is_none());
    }

    #[test]
    fn a_member_is_where_its_key_is() {
        let read = Node::read(FILE).unwrap();
        let b = read.get("b").unwrap();
        assert_eq!((read.get("a").unwrap().place, b.place), (Some((1, 1)), Some((2, 1))));
        assert_eq!(b.get("c").unwrap().place, Some((4, 3)));
        assert_eq!(b.get("e").unwrap().place.map(|place| place.0), Some(5));
        let Content::List(items) = &b.get("c").unwrap().content else { panic!("no list") };
        assert_eq!(items[0].place, Some((4, 7)));
    }

    #[test]
    fn a_key_is_there_once() {
        assert!(Node::read("a: 1\na: 2\n").is_err());
        assert!(Node::read("a: [").is_err());
    }
}
