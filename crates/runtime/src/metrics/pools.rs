//! Metrics of the pools of database connections, read at each scrape.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

/// Use of a pool.
#[derive(Debug, Clone, Copy)]
pub struct PoolUsage {
    /// Connections that work has taken.
    pub used: usize,
    /// Connections that work can have at the same time.
    pub most: usize,
    /// Open connections, in use or not.
    pub open: usize,
}

/// Reader of a pool's use.
type Read = Box<dyn Fn() -> PoolUsage + Send + Sync>;

/// Pools by name.
#[derive(Default)]
pub(super) struct Pools(Mutex<Vec<(&'static str, Read)>>);

impl Pools {
    pub fn add(&self, name: &'static str, read: Read) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((name, read));
    }
}

impl fmt::Debug for Pools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.lock().iter().flat_map(|pools| pools.iter().map(|(name, _)| *name)))
            .finish()
    }
}

impl Collector for Pools {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number")]
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read: Vec<_> = pools.iter().map(|(name, read)| (*name, read())).collect();
        let mut family = |name: &str, help: &str, value: fn(&PoolUsage) -> usize| {
            let mut family =
                encoder.encode_descriptor(name, help, None, ConstGauge::new(0.0).metric_type())?;
            read.iter().try_for_each(|(pool, usage)| {
                ConstGauge::new(value(usage) as f64).encode(family.encode_family(&[("pool", *pool)])?)
            })
        };
        family("pool_connections_used", "Database connections in use", |pool| pool.used)?;
        family("pool_connections_open", "Open database connections", |pool| pool.open)?;
        family("pool_connections_max", "Database connections that may be in use", |pool| pool.most)
    }
}
