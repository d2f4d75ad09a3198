//! State patches (OI-5.3): `set`, `append` and `remove` at a path, and the merge form.
//!
//! A path is split at `/` and empty segments are ignored; there are no escapes and no array indexes. `set`
//! and `append` create missing parents; `remove` of a missing member succeeds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::limits::{PATCHES, PATH_SEGMENTS, STATE_BYTES};
use crate::refusal::{Code, Refusal};

/// Operation of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Sets the value.
    Set,
    /// Appends the value to the array.
    Append,
    /// Removes the value.
    Remove,
}

/// One change of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Patch {
    /// Operation.
    pub op: Op,
    /// Path of the member.
    #[schema(example = "progress/percent")]
    pub path: String,
    /// Value; ignored by `remove`.
    #[serde(default)]
    pub value: Value,
}

/// A request to change a state, in either form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Change {
    /// A list of patches, applied in order.
    Patches {
        /// The patches.
        patches: Vec<Patch>,
    },
    /// Members that replace those of the state.
    Merge {
        /// The members.
        state: Map<String, Value>,
    },
}

/// Returns the state after a change; all parts of the change apply, or none.
///
/// # Errors
/// An empty path, a path through a value that is not an object, `append` to a value that is not an array, or a limit.
pub fn apply(state: &Map<String, Value>, change: &Change) -> Result<Map<String, Value>, Refusal> {
    let mut next = state.clone();
    match change {
        Change::Patches { patches } if patches.len() > PATCHES => {
            return Err(Refusal::field(
                Code::TooLarge,
                "patches",
                "too_long",
                format!("{} patches in one request; at most {PATCHES} are allowed.", patches.len()),
            ));
        }
        Change::Patches { patches } => {
            for patch in patches {
                apply_one(&mut next, patch)?;
            }
        }
        Change::Merge { state } => next.extend(state.clone()),
    }
    check_size(&next)?;
    Ok(next)
}

/// Checks the size of a state.
///
/// # Errors
/// [`Code::TooLarge`].
pub fn check_size(state: &Map<String, Value>) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(state).map_or(0, |text| text.len());
    if bytes > STATE_BYTES {
        return Err(Refusal::field(
            Code::TooLarge,
            "state",
            "too_large",
            format!(
                "The state would have {bytes} bytes, at most {STATE_BYTES} are allowed. Keep large data elsewhere."
            ),
        ));
    }
    Ok(())
}

fn apply_one(state: &mut Map<String, Value>, patch: &Patch) -> Result<(), Refusal> {
    let segments: Vec<&str> = patch.path.split('/').filter(|part| !part.is_empty()).collect();
    let Some((last, parents)) = segments.split_last() else {
        return Err(refused(&patch.path, "names no member. Give at least one, like `progress`"));
    };
    if segments.len() > PATH_SEGMENTS {
        return Err(refused(&patch.path, "has more than 32 parts"));
    }
    let mut object = state;
    for part in parents {
        if patch.op == Op::Remove && !object.contains_key(*part) {
            return Ok(());
        }
        let child = object.entry((*part).to_owned()).or_insert_with(|| Value::Object(Map::new()));
        object = child
            .as_object_mut()
            .ok_or_else(|| refused(&patch.path, "goes through a value that is no object"))?;
    }
    match patch.op {
        Op::Set => {
            object.insert((*last).to_owned(), patch.value.clone());
        }
        Op::Remove => {
            object.remove(*last);
        }
        Op::Append => match object.entry((*last).to_owned()).or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(items) => items.push(patch.value.clone()),
            _ => return Err(refused(&patch.path, "is no array to append to")),
        },
    }
    Ok(())
}

fn refused(path: &str, why: &str) -> Refusal {
    Refusal::field(Code::Unprocessable, "patches", "path", format!("The path `{path}` {why}."))
}
