//! Control of jobs after their submission, by their submitters and by operators: search with counts, dead letters, running jobs
//! again, signals, trees of children. The rows are in `records`.

mod letters;
mod rerun;
mod search;
mod signals;
mod tree;

pub use letters::{beside, resolve};
pub use rerun::{Again, Rerun, RerunAsk, rerun, rerun_found};
pub use search::{Counts, JobSearch, count, search};
pub use signals::{Delivered, acknowledge, send, sent, wait};
pub use tree::{Node, Tree, tree};
