//! Search by words over messages, events and jobs, in PostgreSQL's full text.
//!
//! The hot paths write nothing for it. One server at a time follows the commits (`follower.rs`) and stores documents
//! (`documents.rs`) with the words of their sources (`sources.rs`). A search finds documents in SQL, and shows those whose
//! source the caller could read by its own GET (`finding.rs`). Documents leave with their sources, by triggers of the schema.

mod documents;
mod finding;
mod follower;
mod sources;

pub use documents::Ask;
pub use finding::{Found, Hit, Indexed, PAGE, Source, find};
pub use follower::{ENTRIES, Step, step};
