//! Faults of a workflow file, each with its position.

use std::fmt;

use serde_json::{Value, json};
use serde_saphyr::Location;

/// Line and column, both from 1.
pub(super) type Place = (u64, u64);

/// Returns the position of a location, if it is known.
pub(super) fn place(location: Location) -> Option<Place> {
    (location != Location::UNKNOWN).then(|| (location.line(), location.column()))
}

/// An error in a file: its position, its path such as `workflow.research.assign`, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    place: Option<Place>,
    path: String,
    message: String,
}

impl Fault {
    /// Creates a fault that the position alone locates.
    pub(super) fn at(location: Location, message: String) -> Self {
        Self { place: place(location), path: String::new(), message }
    }

    /// Creates a fault of the member at `path`.
    pub(super) fn of(place: Option<Place>, path: &str, message: impl Into<String>) -> Self {
        Self { place, path: path.to_owned(), message: message.into() }
    }

    /// Returns the fault for programs.
    pub(super) fn object(&self) -> Value {
        let (line, column) = self.place.unzip();
        json!({ "type": "workflow", "line": line, "column": column, "path": self.path, "msg": self.message })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "{line}:{column}:")?;
        }
        if !self.path.is_empty() {
            write!(f, " {}:", self.path)?;
        }
        write!(f, " {}", self.message)
    }
}
