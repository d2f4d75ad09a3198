//! Spending: budgets that many jobs and agents share, what is charged to them, and the record of all costs. The rules
//! are in `domain/src/spending.rs`; the counters of single jobs are ARCP's.

pub mod budgets;
pub mod charges;
pub mod reached;
pub mod reports;
pub mod reservations;
pub mod retention;

pub use charges::{Charge, Paid, apply};
