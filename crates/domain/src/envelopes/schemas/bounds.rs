//! How often a schema looks at one value, at the most, found before it looks at any.
//!
//! Schemas that are all written out look at a value a few times. With references, one of a few lines can look
//! 2^64 times: each level applies the level below twice. So the schemas that apply to the same value are counted along the
//! references, level by level down to the deepest payload there can be. What counts too far, or refers to what is not
//! in it, is no schema for a server.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::limits::JSON_DEPTH;

/// Looks at one value that are too many.
const MOST: u64 = 1_000;

/// Schemas within one that are too many, and schemas that apply to one value.
const PARTS: usize = 2_000;
const TOGETHER: usize = 500;

/// Steps of the count that are too many.
const STEPS: usize = 200_000;

/// The one draft.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What is wrong with a schema, and where.
#[derive(Debug)]
pub(super) struct Misfit {
    /// A JSON Pointer.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

fn misfit<T>(place: &str, what: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit { place: place.to_owned(), what: what.into() })
}

/// How often a schema looks at any one value.
pub(super) fn weigh(schema: &Value) -> Result<u64, Misfit> {
    foreign(schema, "")?;
    let mut reader = Reader { root: schema, parts: Vec::new(), known: HashMap::new(), left: Vec::new() };
    reader.part("")?;
    // Not by recursion: a chain of references is as long as the schema.
    while let Some((number, place)) = reader.left.pop() {
        reader.read(number, &place)?;
    }
    count(&reader.parts)
}

/// Refuses what refers to something outside, and what changes what a reference means.
fn foreign(value: &Value, place: &str) -> Result<(), Misfit> {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let here = format!("{place}/{}", escaped(name));
                if let Some(text) = value.as_str() {
                    word(place, &here, name, text)?;
                }
                // What is said there is data.
                if !matches!(name.as_str(), "const" | "enum" | "default" | "examples") {
                    foreign(value, &here)?;
                }
            }
            Ok(())
        }
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| foreign(item, &format!("{place}/{index}")))
        }
        _ => Ok(()),
    }
}

fn word(place: &str, here: &str, name: &str, text: &str) -> Result<(), Misfit> {
    match name {
        "$schema" if text.trim_end_matches('#') != DRAFT => {
            misfit(here, format!("the draft must be 2020-12, which is `{DRAFT}`"))
        }
        "$id" | "$schema" if !place.is_empty() => misfit(here, "only the whole schema may have this"),
        "$ref" if !(text == "#" || text.starts_with("#/")) || text.contains('%') => {
            misfit(here, "a reference must be into this schema, such as `#/$defs/name`; nothing is fetched")
        }
        "$dynamicRef" | "$recursiveRef" => misfit(here, "a reference must be a `$ref`"),
        _ => Ok(()),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A schema within the schema.
#[derive(Debug, Default)]
struct Part {
    /// Looks of its own.
    own: u64,
    /// Schemas for the same value.
    same: Vec<usize>,
    /// Schemas for members by name, or for items by place.
    named: HashMap<String, usize>,
    /// Schemas for members and items that have none by name.
    others: Vec<usize>,
    /// Schemas for every member or item.
    every: Vec<usize>,
}

struct Reader<'a> {
    root: &'a Value,
    parts: Vec<Part>,
    known: HashMap<String, usize>,
    /// Those that have a number and were not read yet.
    left: Vec<(usize, String)>,
}

impl<'a> Reader<'a> {
    /// The number of the schema at a place, which will be read.
    fn part(&mut self, place: &str) -> Result<usize, Misfit> {
        if let Some(number) = self.known.get(place) {
            return Ok(*number);
        }
        let number = self.parts.len();
        if number >= PARTS {
            return misfit(place, format!("it has more than {PARTS} schemas in it"));
        }
        self.known.insert(place.to_owned(), number);
        self.parts.push(Part { own: 1, ..Part::default() });
        self.left.push((number, place.to_owned()));
        Ok(number)
    }

    fn read(&mut self, number: usize, place: &str) -> Result<(), Misfit> {
        let root: &'a Value = self.root;
        match root.pointer(place) {
            None => misfit(place, "there is nothing here, and something refers to it"),
            Some(Value::Object(members)) => {
                self.parts[number] = self.members(members, place)?;
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    fn members(&mut self, members: &Map<String, Value>, place: &str) -> Result<Part, Misfit> {
        let listed = ["enum", "required"].iter().filter_map(|name| members.get(*name)?.as_array());
        let listed: usize = listed.map(Vec::len).sum();
        let mut part = Part { own: 1 + u64::try_from(listed / 8).unwrap_or(u64::MAX), ..Part::default() };
        for (name, value) in members {
            let here = format!("{place}/{}", escaped(name));
            match name.as_str() {
                "$ref" => {
                    let target = value.as_str().and_then(|text| text.strip_prefix('#')).unwrap_or_default();
                    part.same.push(self.part(target)?);
                }
                "not" | "if" | "then" | "else" => part.same.push(self.part(&here)?),
                "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => {
                    part.same.extend(self.within(value, &here)?.into_iter().map(|(_, number)| number));
                }
                "properties" | "prefixItems" => part.named.extend(self.within(value, &here)?),
                "patternProperties" => {
                    part.every.extend(self.within(value, &here)?.into_iter().map(|(_, number)| number));
                }
                "additionalProperties" | "items" | "additionalItems" => part.others.push(self.part(&here)?),
                "contains" | "propertyNames" | "unevaluatedProperties" | "unevaluatedItems" => {
                    part.every.push(self.part(&here)?);
                }
                _ => {}
            }
        }
        if members.keys().any(|name| name.starts_with("unevaluated")) {
            // What was looked at is found out by looking again.
            part.same.extend(part.same.clone());
        }
        Ok(part)
    }

    /// The schemas in a list or under names.
    fn within(&mut self, value: &Value, place: &str) -> Result<Vec<(String, usize)>, Misfit> {
        let names: Vec<String> = match value {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        let read = |name: String| {
            let number = self.part(&format!("{place}/{}", escaped(&name)))?;
            Ok((name, number))
        };
        names.into_iter().map(read).collect()
    }
}

/// The schemas that apply to the value that one applies to, itself among them, as often as they do.
fn together(parts: &[Part], first: usize) -> Result<Vec<usize>, Misfit> {
    // What is still to be done: a schema, or the end of one.
    let mut left = vec![(first, false)];
    let mut within = Vec::new();
    let mut found = Vec::new();
    while let Some((number, done)) = left.pop() {
        if done {
            within.pop();
            continue;
        }
        if within.contains(&number) {
            return misfit("", "a reference leads back to itself without going deeper into the payload");
        }
        found.push(number);
        if found.len() > TOGETHER {
            return misfit("", format!("more than {TOGETHER} of its schemas apply to the same value"));
        }
        within.push(number);
        left.push((number, true));
        left.extend(parts[number].same.iter().map(|same| (*same, false)));
    }
    Ok(found)
}

/// The schemas that apply to each member or item of a value that some apply to.
fn below(parts: &[Part], together: &[usize]) -> Vec<Vec<usize>> {
    let names: BTreeSet<&str> =
        together.iter().flat_map(|number| parts[*number].named.keys().map(String::as_str)).collect();
    // One more, for those without a name.
    let all = names.into_iter().map(Some).chain([None]);
    all.map(|name| {
        let apply = together.iter().flat_map(|number| {
            let part = &parts[*number];
            let named = name.and_then(|name| part.named.get(name));
            let others = if named.is_some() { &[][..] } else { part.others.as_slice() };
            named.into_iter().chain(others).chain(&part.every).copied()
        });
        apply.collect()
    })
    .collect()
}

fn count(parts: &[Part]) -> Result<u64, Misfit> {
    let mut looks = Vec::new();
    let mut deeper = Vec::new();
    let mut steps = 0;
    for first in 0..parts.len() {
        let together = together(parts, first)?;
        let names: usize = together.iter().map(|number| parts[*number].named.len() + 1).sum();
        steps += names * together.len();
        if steps > STEPS {
            return misfit("", "it is too involved; say it with fewer schemas that apply at once");
        }
        looks.push(together.iter().map(|number| parts[*number].own).sum::<u64>());
        deeper.push(below(parts, &together));
    }
    let mut most = looks[0];
    for _ in 0..JSON_DEPTH {
        let next: Vec<u64> = deeper
            .iter()
            .map(|members| {
                let each = members
                    .iter()
                    .map(|apply| apply.iter().fold(0_u64, |sum, number| sum.saturating_add(looks[*number])));
                each.max().unwrap_or(0)
            })
            .collect();
        most = most.max(next[0]);
        if most > MOST {
            return misfit("", format!("it would look at one value more than {MOST} times"));
        }
        if next == looks {
            break;
        }
        looks = next;
    }
    Ok(most)
}
