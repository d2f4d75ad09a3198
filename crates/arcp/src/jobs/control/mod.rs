//! Control of jobs after their submission, by their submitters and by operators: search with counts, dead letters, running jobs
//! again, signals, trees of children, conversations of submitter and worker, push
//! notifications. The rows are in `records`.

mod conversation;
mod letters;
mod pushes;
mod rerun;
mod search;
mod signals;
mod tree;

pub use conversation::{Conversation, Position, chunks, conversation, positions};
pub use letters::{beside, resolve};
pub use pushes::{
    Pending, PushFailure, add_receiver, claim_pushes, end_push, load_push, receivers, record_push,
    remove_receiver, require_receiver,
};
pub use rerun::{Again, Rerun, RerunAsk, rerun, rerun_found};
pub use search::{Counts, JobSearch, count, search};
pub use signals::{Delivered, acknowledge, send, sent, wait};
pub use tree::{Node, Tree, tree};
