//! Spending: budgets that many jobs and agents share, stops, and the costs of intents. Charges to budgets are in
//! `charges.rs`, on which the log builds; the rules are in `domain/src/spending.rs`; the counters of single jobs are ARCP's.

pub mod budgets;
pub mod cost_limits;
pub mod costs;
pub mod reports;
pub mod reservations;
pub mod retention;
pub mod stops;
