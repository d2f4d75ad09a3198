//! Metrics of levels that the database knows and no counter: work, decisions and budgets of the whole system.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Levels of the whole system. Counts end at 10,000.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
    /// Unfinished jobs by status.
    pub jobs: [(&'static str, i64); 2],
    /// Age of the oldest job that no worker has claimed, in seconds; 0 without one.
    pub oldest_job: f64,
    /// Decisions that people have not made yet.
    pub decisions: i64,
    /// Age of the oldest of them, in seconds; 0 without one.
    pub oldest_decision: f64,
    /// Open budgets by the use of their present windows: `below_80` per cent, `from_80`, or `full`.
    pub budgets: [(&'static str, i64); 3],
}

/// The levels that were read last; none while the database does not answer.
#[derive(Debug, Default)]
pub(super) struct LastLevels(Mutex<Option<Levels>>);

impl LastLevels {
    pub fn set(&self, levels: Option<Levels>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = levels;
    }
}

impl Collector for LastLevels {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(levels) = last else { return Ok(()) };
        let mut family = |name: &str, help: &str, label: &str, counts: &[(&'static str, i64)]| {
            let mut family =
                encoder.encode_descriptor(name, help, None, ConstGauge::new(0_i64).metric_type())?;
            counts.iter().try_for_each(|(value, count)| {
                ConstGauge::new(*count).encode(family.encode_family(&[(label, *value)])?)
            })
        };
        family("jobs_open", "Unfinished jobs by status, counted up to 10,000", "status", &levels.jobs)?;
        family("budgets", "Open budgets by the use of their present windows", "use", &levels.budgets)?;
        let waiting = ConstGauge::new(levels.decisions);
        let help = "Decisions that wait for people, counted up to 10,000";
        waiting.encode(encoder.encode_descriptor(
            "decisions_waiting",
            help,
            None,
            waiting.metric_type(),
        )?)?;
        let mut age = |name: &str, help: &str, seconds: f64| {
            let age = ConstGauge::new(seconds);
            let unit = Some(&Unit::Seconds);
            age.encode(encoder.encode_descriptor(name, help, unit, age.metric_type())?)
        };
        age("job_oldest_wait", "Age of the oldest job that no worker has claimed", levels.oldest_job)?;
        age("decision_oldest_wait", "Age of the oldest decision that waits", levels.oldest_decision)
    }
}
