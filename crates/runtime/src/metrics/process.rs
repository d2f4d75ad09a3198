//! Metrics of the process, under the names that all clients of Prometheus use. They are read from `/proc` at each scrape; on
//! systems without it there are none.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Reader of the process's metrics.
#[derive(Debug)]
pub(super) struct Process;

/// The system's figures about this process.
#[derive(Debug, PartialEq)]
struct Usage {
    cpu_seconds: f64,
    threads: u64,
    /// Since 1970.
    started_at: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Usage {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?, &fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the lines of the process and of the system.
    #[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number")]
    fn parse(process: &str, system: &str) -> Option<Self> {
        // The program's name is in parentheses, and may contain anything.
        let (_, fields) = process.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Numbered as in proc(5), where the state after the name is the third field.
        let field = |number: usize| fields.get(number.checked_sub(3)?)?.parse::<u64>().ok();
        let ticks = clock_ticks_per_second().max(1) as f64;
        let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<u64>().ok()?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
            threads: field(20)?,
            started_at: boot as f64 + field(22)? as f64 / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)?.saturating_mul(page_size() as u64),
        })
    }
}

impl Collector for Process {
    #[expect(clippy::cast_precision_loss, reason = "a metric is a floating-point number")]
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let Some(usage) = Usage::read() else { return Ok(()) };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let help = "Processor time of the process";
        cpu.encode(encoder.encode_descriptor(
            "process_cpu",
            help,
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?)?;
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)
        };
        let bytes = Some(&Unit::Bytes);
        gauge("process_resident_memory", "Memory in use", bytes, usage.resident_bytes as f64)?;
        gauge("process_virtual_memory", "Address space in use", bytes, usage.virtual_bytes as f64)?;
        gauge(
            "process_start_time",
            "Start of the process, since 1970",
            Some(&Unit::Seconds),
            usage.started_at,
        )?;
        gauge("process_threads", "Threads of the process", None, usage.threads as f64)?;
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory that is being read.
            let open = open.count().saturating_sub(1);
            gauge("process_open_fds", "Open files and sockets", None, open as f64)?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            gauge("process_max_fds", "Files and sockets that may be open", None, most as f64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let ticks = clock_ticks_per_second();
        let line = format!(
            "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 {} {} 0 0 20 0 9 0 {} 4096000 25 1844674",
            2 * ticks,
            ticks,
            5 * ticks
        );
        let usage = Usage::parse(&line, "cpu 1 2 3\nbtime 1000\nprocesses 4\n").unwrap();
        let expected = Usage {
            cpu_seconds: 3.0,
            threads: 9,
            started_at: 1_005.0,
            virtual_bytes: 4_096_000,
            resident_bytes: 25 * page_size() as u64,
        };
        assert_eq!(usage, expected);
        assert_eq!(Usage::parse("7 (a) S 1", "btime 1000\n"), None);
    }
}
