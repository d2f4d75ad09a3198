//! The form of workflows of the OpenIntent Python SDK: `openintent: "1.0"` with `info` and `workflow`. The SDK
//! creates one intent per phase. Entente does so as well, below an intent for the workflow itself, and enforces the
//! settings for which it has a mechanism. `sdk/reading.rs` reads the file, `sdk/phase.rs` one phase,
//! `sdk/permissions.rs` its access, and `sdk/wiring.rs` checks how phases refer to each other.

mod permissions;
mod phase;
mod reader;
mod reading;
mod types;
mod wiring;

use serde_saphyr::Location;

use super::faults::Fault;
use super::form::told;
use super::tree::Node;

pub(super) use self::types::{Access, Note, Phase, SdkForm};

/// Parses a file if it is in this form; `None` if it is in another.
///
/// # Errors
/// All errors in it, as far as it can be parsed.
pub(super) fn read(text: &str) -> Option<Result<SdkForm, Vec<Fault>>> {
    match Node::read(text) {
        Ok(tree) => {
            let is_sdk = tree.members().iter().any(|(key, _)| key == "openintent");
            is_sdk.then(|| reading::read(&tree))
        }
        Err(error) => {
            let is_sdk = text.lines().any(|line| line.starts_with("openintent:"));
            let fault = || Fault::at(error.location().unwrap_or(Location::UNKNOWN), told(&error));
            is_sdk.then(|| Err(vec![fault()]))
        }
    }
}
