//! Control of jobs after their submission, by their submitters and by operators: search with counts, dead letters, running jobs
//! again, signals, trees of children, what submitter and worker have said. The rows are in `records`.

mod conversation;
mod letters;
mod rerun;
mod search;
mod signals;
mod tree;

pub use conversation::{Conversation, Position, chunks, conversation, positions};
pub use letters::{beside, resolve};
pub use rerun::{Again, Rerun, RerunAsk, rerun, rerun_found};
pub use search::{Counts, JobSearch, count, search};
pub use signals::{Delivered, acknowledge, send, sent, wait};
pub use tree::{Node, Tree, tree};
