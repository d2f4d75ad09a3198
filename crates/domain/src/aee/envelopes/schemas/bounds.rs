//! Computes the maximum number of evaluations of one value by a schema, before any value is evaluated.
//!
//! A schema without references evaluates a value a few times. With references, one of a few lines can
//! evaluate it 2^64 times, because each level may apply the level below twice. So the schemas that apply to
//! the same value are counted along the references, level by level down to the deepest possible payload.
//! Schemas over the limits, or with references to anything outside, are refused.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::limits::JSON_DEPTH;

/// Maximum evaluations of one value.
const MOST: u64 = 1_000;

/// Maximum numbers of subschemas in a schema, and of subschemas that apply to one value.
const PARTS: usize = 2_000;
const TOGETHER: usize = 500;

/// Maximum steps of the computation.
const STEPS: usize = 200_000;

/// The only supported draft.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A fault of a schema, with its position.
#[derive(Debug)]
pub(super) struct BoundsError {
    /// A JSON Pointer.
    pub place: String,
    /// The fault.
    pub what: String,
}

fn misfit<T>(place: &str, what: impl Into<String>) -> Result<T, BoundsError> {
    Err(BoundsError { place: place.to_owned(), what: what.into() })
}

/// Returns the maximum number of evaluations of any one value.
pub(super) fn weigh(schema: &Value) -> Result<u64, BoundsError> {
    foreign(schema, "")?;
    let mut reader = Reader { root: schema, parts: Vec::new(), known: HashMap::new(), left: Vec::new() };
    reader.part("")?;
    // Iterative, not recursive, because a chain of references may be as long as the schema.
    while let Some((number, place)) = reader.left.pop() {
        reader.read(number, &place)?;
    }
    count(&reader.parts)
}

/// Refuses references to anything outside, and keywords that change the meaning of references.
fn foreign(value: &Value, place: &str) -> Result<(), BoundsError> {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let here = format!("{place}/{}", escaped(name));
                if let Some(text) = value.as_str() {
                    word(place, &here, name, text)?;
                }
                // The values of these keywords are data.
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

fn word(place: &str, here: &str, name: &str, text: &str) -> Result<(), BoundsError> {
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

/// A subschema.
#[derive(Debug, Default)]
struct Part {
    /// Evaluations of its own.
    own: u64,
    /// Subschemas for the same value.
    same: Vec<usize>,
    /// Subschemas for members by name, or for items by position.
    named: HashMap<String, usize>,
    /// Subschemas for members and items without one by name.
    others: Vec<usize>,
    /// Subschemas for every member or item.
    every: Vec<usize>,
}

struct Reader<'a> {
    root: &'a Value,
    parts: Vec<Part>,
    known: HashMap<String, usize>,
    /// Subschemas that have a number but were not read yet.
    left: Vec<(usize, String)>,
}

impl<'a> Reader<'a> {
    /// Returns the number of the subschema at a position, and schedules it for reading.
    fn part(&mut self, place: &str) -> Result<usize, BoundsError> {
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

    fn read(&mut self, number: usize, place: &str) -> Result<(), BoundsError> {
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

    fn members(&mut self, members: &Map<String, Value>, place: &str) -> Result<Part, BoundsError> {
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
            // To find the evaluated members, the subschemas for the same value are evaluated a second time.
            part.same.extend(part.same.clone());
        }
        Ok(part)
    }

    /// Returns the subschemas in a list or under names.
    fn within(&mut self, value: &Value, place: &str) -> Result<Vec<(String, usize)>, BoundsError> {
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

/// Returns the subschemas that apply to the same value as `first`, including itself, as often as they apply.
fn together(parts: &[Part], first: usize) -> Result<Vec<usize>, BoundsError> {
    // The remaining work: a subschema, or the end of one.
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

/// Returns the subschemas that apply to each member or item of a value to which those in `together` apply.
fn below(parts: &[Part], together: &[usize]) -> Vec<Vec<usize>> {
    let names: BTreeSet<&str> =
        together.iter().flat_map(|number| parts[*number].named.keys().map(String::as_str)).collect();
    // One more, for members without a subschema by name.
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

fn count(parts: &[Part]) -> Result<u64, BoundsError> {
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
